-- A store of version 1, written by bitcycle 0.1: bitcycle study graph, deficit graph, and a study whose data was missing.
PRAGMA application_id = 1651078243;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE failures (name TEXT PRIMARY KEY, run TEXT, traceback TEXT, written TEXT) WITHOUT ROWID;
INSERT INTO "failures" VALUES('461a1b96d7db4e28','{"task": "image", "schedule": "static:8", "steps": 4, "seed": 0, "backward_bits": 8, "model": "", "data": "/data/digits", "batch_size": 0, "autocast": false, "compiled": false, "keep": "best", "measured": false, "rate": "", "options": {}}','Traceback (most recent call last):
  File "bitcycle/study/work.py", line 47, in work
    result, _ = train(run, folder, _every_so_often(tell or _into(folder)), _often_enough(run), device)
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bitcycle/training.py", line 87, in train
    training = task.prepare(run)
               ^^^^^^^^^^^^^^^^^
  File "bitcycle/tasks/image.py", line 41, in prepare
    data = read_images(find_official(run.data)) if run.data else digits()
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bitcycle/data/images.py", line 51, in read_images
    path = existing_folder(folder, _HOLDS)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bitcycle/data/files.py", line 23, in existing_folder
    raise DataError(f"{path}: there is no such folder; it should hold {holds}")
bitcycle.data.errors.DataError: /data/digits: there is no such folder; it should hold idx files (train-images-idx3-ubyte.gz ...), CIFAR python batches (cifar-10-batches-py, cifar-100-python) or images in train/<class>/ and val/<class>/
','2026-11-16T17:52:58+00:00');
CREATE TABLE members (study TEXT, place INTEGER, run TEXT, PRIMARY KEY (study, place)) WITHOUT ROWID;
INSERT INTO "members" VALUES('broken',0,'{"task": "image", "schedule": "static:8", "steps": 4, "seed": 0, "backward_bits": 8, "model": "", "data": "/data/digits", "batch_size": 0, "autocast": false, "compiled": false, "keep": "best", "measured": false, "rate": "", "options": {}}');
INSERT INTO "members" VALUES('probe',0,'{"task": "graph", "schedule": "static:8", "steps": 8, "seed": 0, "backward_bits": 8, "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "last", "measured": true, "rate": "", "options": {}}');
INSERT INTO "members" VALUES('probe',1,'{"task": "graph", "schedule": "deficit(1@0..4, static:8)", "steps": 12, "seed": 0, "backward_bits": 8, "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "last", "measured": true, "rate": "hold@0..4", "options": {}}');
INSERT INTO "members" VALUES('probe',2,'{"task": "graph", "schedule": "deficit(1@0..4, static:8)", "steps": 12, "seed": 0, "backward_bits": 8, "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "last", "measured": true, "rate": "restart@4", "options": {}}');
INSERT INTO "members" VALUES('probe',3,'{"task": "graph", "schedule": "static:8", "steps": 12, "seed": 0, "backward_bits": 8, "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "last", "measured": true, "rate": "hold@0..4", "options": {}}');
INSERT INTO "members" VALUES('probe',4,'{"task": "graph", "schedule": "deficit(1@4..8, static:8)", "steps": 12, "seed": 0, "backward_bits": 8, "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "last", "measured": true, "rate": "hold@4..8", "options": {}}');
INSERT INTO "members" VALUES('probe',5,'{"task": "graph", "schedule": "deficit(1@4..8, static:8)", "steps": 12, "seed": 0, "backward_bits": 8, "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "last", "measured": true, "rate": "restart@8", "options": {}}');
INSERT INTO "members" VALUES('probe',6,'{"task": "graph", "schedule": "static:8", "steps": 12, "seed": 0, "backward_bits": 8, "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "last", "measured": true, "rate": "hold@4..8", "options": {}}');
INSERT INTO "members" VALUES('tiny',0,'{"task": "graph", "schedule": "CR:1-8:cycles=8", "steps": 12, "seed": 0, "backward_bits": "max", "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "best", "measured": false, "rate": "", "options": {}}');
INSERT INTO "members" VALUES('tiny',1,'{"task": "graph", "schedule": "static:8", "steps": 12, "seed": 0, "backward_bits": 8, "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "best", "measured": false, "rate": "", "options": {}}');
INSERT INTO "members" VALUES('tiny',2,'{"task": "graph", "schedule": "full", "steps": 12, "seed": 0, "backward_bits": "max", "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "best", "measured": false, "rate": "", "options": {}}');
INSERT INTO "members" VALUES('tiny',3,'{"task": "graph", "schedule": "CR:1-8:cycles=8", "steps": 12, "seed": 1, "backward_bits": "max", "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "best", "measured": false, "rate": "", "options": {}}');
INSERT INTO "members" VALUES('tiny',4,'{"task": "graph", "schedule": "static:8", "steps": 12, "seed": 1, "backward_bits": 8, "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "best", "measured": false, "rate": "", "options": {}}');
INSERT INTO "members" VALUES('tiny',5,'{"task": "graph", "schedule": "full", "steps": 12, "seed": 1, "backward_bits": "max", "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "best", "measured": false, "rate": "", "options": {}}');
CREATE TABLE records (
    name TEXT PRIMARY KEY, task TEXT, schedule TEXT, seed INTEGER, run TEXT, metric TEXT, higher_is_better INTEGER,
    test REAL, validation REAL, best_step INTEGER, bitops TEXT, seconds REAL, extra TEXT, curve TEXT, versions TEXT,
    written TEXT
) WITHOUT ROWID;
INSERT INTO "records" VALUES('0043ebdab446c595','graph','static:8',1,'{"task": "graph", "schedule": "static:8", "steps": 12, "seed": 1, "backward_bits": 8, "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "best", "measured": false, "rate": "", "options": {}}','accuracy',1,8.74000012874603271484e-01,8.96666646003723144531e-01,12,'53337833472',2.13529935399992609745e+00,'{}','[{"step": 12, "bits": 8.0, "loss": 1.5207662185033162, "validation": 0.8966666460037231}]','{"bitcycle": "0.1.0", "torch": "2.13.0+cpu", "numpy": "2.4.6", "python": "3.11.7", "machine": "Linux x86_64", "device": "cpu", "threads": "1"}','2026-11-16T17:51:54+00:00');
INSERT INTO "records" VALUES('0b3d4b88030e67aa','graph','deficit(1@0..4, static:8)',0,'{"task": "graph", "schedule": "deficit(1@0..4, static:8)", "steps": 12, "seed": 0, "backward_bits": 8, "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "last", "measured": true, "rate": "hold@0..4", "options": {}}','accuracy',1,4.8100000619888305664e-01,4.60000008344650268554e-01,12,'49029173760',1.51651672919999782607e+01,'{}','[{"step": 12, "bits": 8.0, "loss": 2.3230012953281403, "validation": 0.46000000834465027, "Fisher information": 19.171918845555247, "gradient over noise": 27.302530664441772, "gradient diversity": 0.5113132593142469, "gradient after a change of bits": 0.39535899283353676, "update after a change of bits": 0.8675301152811605}]','{"bitcycle": "0.1.0", "torch": "2.13.0+cpu", "numpy": "2.4.6", "python": "3.11.7", "machine": "Linux x86_64", "device": "cpu", "threads": "1"}','2026-11-16T17:52:22+00:00');
INSERT INTO "records" VALUES('43881dcbe68dafaa','graph','full',0,'{"task": "graph", "schedule": "full", "steps": 12, "seed": 0, "backward_bits": "max", "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "best", "measured": false, "rate": "", "options": {}}','accuracy',1,8.56999993324279785156e-01,9.10000026226043701171e-01,12,'262670794752',2.32927383300011570099e+00,'{}','[{"step": 12, "bits": 32.0, "loss": 1.5480850040912628, "validation": 0.9100000262260437}]','{"bitcycle": "0.1.0", "torch": "2.13.0+cpu", "numpy": "2.4.6", "python": "3.11.7", "machine": "Linux x86_64", "device": "cpu", "threads": "1"}','2026-11-16T17:51:52+00:00');
INSERT INTO "records" VALUES('689ab2725068b5b7','graph','static:8',0,'{"task": "graph", "schedule": "static:8", "steps": 12, "seed": 0, "backward_bits": 8, "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "last", "measured": true, "rate": "hold@4..8", "options": {}}','accuracy',1,8.50000023841857910156e-01,9.06666696071624755859e-01,12,'53337833472',1.21288692200005243648e+00,'{}','[{"step": 12, "bits": 8.0, "loss": 1.58453764518102, "validation": 0.9066666960716248, "Fisher information": 39.88406556198072, "gradient over noise": 22.403194610720515, "gradient diversity": 0.528447188418055}]','{"bitcycle": "0.1.0", "torch": "2.13.0+cpu", "numpy": "2.4.6", "python": "3.11.7", "machine": "Linux x86_64", "device": "cpu", "threads": "1"}','2026-11-16T17:52:28+00:00');
INSERT INTO "records" VALUES('93e8581fba890771','graph','static:8',0,'{"task": "graph", "schedule": "static:8", "steps": 12, "seed": 0, "backward_bits": 8, "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "last", "measured": true, "rate": "hold@0..4", "options": {}}','accuracy',1,8.73000025749206542968e-01,9.26666676998138427734e-01,12,'53337833472',2.54106985799990070518e+00,'{}','[{"step": 12, "bits": 8.0, "loss": 1.4423797676960628, "validation": 0.9266666769981384, "Fisher information": 50.190379298675936, "gradient over noise": 20.502581564839705, "gradient diversity": 0.5384154658248985}]','{"bitcycle": "0.1.0", "torch": "2.13.0+cpu", "numpy": "2.4.6", "python": "3.11.7", "machine": "Linux x86_64", "device": "cpu", "threads": "1"}','2026-11-16T17:52:24+00:00');
INSERT INTO "records" VALUES('9c60b8417d81eced','graph','deficit(1@4..8, static:8)',0,'{"task": "graph", "schedule": "deficit(1@4..8, static:8)", "steps": 12, "seed": 0, "backward_bits": 8, "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "last", "measured": true, "rate": "restart@8", "options": {}}','accuracy',1,8.87000024318695068359e-01,9.06666696071624755859e-01,12,'49029173760',2.23447572200007,'{}','[{"step": 12, "bits": 8.0, "loss": 1.820015807946523, "validation": 0.9066666960716248, "Fisher information": 39.803195176689776, "gradient over noise": 31.317100550051634, "gradient diversity": 0.5186417540505707, "gradient after a change of bits": 3.669559447540853, "update after a change of bits": 2.197322019460249}]','{"bitcycle": "0.1.0", "torch": "2.13.0+cpu", "numpy": "2.4.6", "python": "3.11.7", "machine": "Linux x86_64", "device": "cpu", "threads": "1"}','2026-11-16T17:52:27+00:00');
INSERT INTO "records" VALUES('a18c1afc520114e5','graph','static:8',0,'{"task": "graph", "schedule": "static:8", "steps": 8, "seed": 0, "backward_bits": 8, "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "last", "measured": true, "rate": "", "options": {}}','accuracy',1,0.781000018119812,8.26666653156280517578e-01,8,'35558555648',1.49471064259998911438e+01,'{}','[{"step": 8, "bits": 8.0, "loss": 1.811634600162506, "validation": 0.8266666531562805, "Fisher information": 23.167661294749564, "gradient over noise": 31.210261428943163, "gradient diversity": 0.5172502428590832}]','{"bitcycle": "0.1.0", "torch": "2.13.0+cpu", "numpy": "2.4.6", "python": "3.11.7", "machine": "Linux x86_64", "device": "cpu", "threads": "1"}','2026-11-16T17:52:21+00:00');
INSERT INTO "records" VALUES('a2130504f4d312ed','graph','static:8',0,'{"task": "graph", "schedule": "static:8", "steps": 12, "seed": 0, "backward_bits": 8, "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "best", "measured": false, "rate": "", "options": {}}','accuracy',1,8.53999972343444824218e-01,9.13333356380462646484e-01,12,'53337833472',1.89369288200000482902e+01,'{}','[{"step": 12, "bits": 8.0, "loss": 1.5484236081441243, "validation": 0.9133333563804626}]','{"bitcycle": "0.1.0", "torch": "2.13.0+cpu", "numpy": "2.4.6", "python": "3.11.7", "machine": "Linux x86_64", "device": "cpu", "threads": "1"}','2026-11-16T17:51:50+00:00');
INSERT INTO "records" VALUES('a910f67f9609827d','graph','full',1,'{"task": "graph", "schedule": "full", "steps": 12, "seed": 1, "backward_bits": "max", "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "best", "measured": false, "rate": "", "options": {}}','accuracy',1,8.73000025749206542968e-01,8.96666646003723144531e-01,12,'262670794752',1.89230535900014729122e+00,'{}','[{"step": 12, "bits": 32.0, "loss": 1.5202954709529877, "validation": 0.8966666460037231}]','{"bitcycle": "0.1.0", "torch": "2.13.0+cpu", "numpy": "2.4.6", "python": "3.11.7", "machine": "Linux x86_64", "device": "cpu", "threads": "1"}','2026-11-16T17:51:54+00:00');
INSERT INTO "records" VALUES('d1fd95144dc2b425','graph','CR:1-8:cycles=8',1,'{"task": "graph", "schedule": "CR:1-8:cycles=8", "steps": 12, "seed": 1, "backward_bits": "max", "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "best", "measured": false, "rate": "", "options": {}}','accuracy',1,5.54000020027160644531e-01,5.73333323001861572265e-01,12,'44039666688',2.18497456499994768819e+00,'{}','[{"step": 12, "bits": 3.0, "loss": 2.103616635004679, "validation": 0.5733333230018616}]','{"bitcycle": "0.1.0", "torch": "2.13.0+cpu", "numpy": "2.4.6", "python": "3.11.7", "machine": "Linux x86_64", "device": "cpu", "threads": "1"}','2026-11-16T17:51:52+00:00');
INSERT INTO "records" VALUES('e49579013b2476e5','graph','deficit(1@0..4, static:8)',0,'{"task": "graph", "schedule": "deficit(1@0..4, static:8)", "steps": 12, "seed": 0, "backward_bits": 8, "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "last", "measured": true, "rate": "restart@4", "options": {}}','accuracy',1,8.46000015735626220703e-01,8.56666684150695800781e-01,12,'49029173760',2.65086182699997152667e+00,'{}','[{"step": 12, "bits": 8.0, "loss": 2.1058822174866996, "validation": 0.8566666841506958, "Fisher information": 39.02456122762761, "gradient over noise": 30.20400518639723, "gradient diversity": 0.518964984783454, "gradient after a change of bits": 0.38776188862962674, "update after a change of bits": 1.728929287312693}]','{"bitcycle": "0.1.0", "torch": "2.13.0+cpu", "numpy": "2.4.6", "python": "3.11.7", "machine": "Linux x86_64", "device": "cpu", "threads": "1"}','2026-11-16T17:52:24+00:00');
INSERT INTO "records" VALUES('ee3ee52c088838f1','graph','deficit(1@4..8, static:8)',0,'{"task": "graph", "schedule": "deficit(1@4..8, static:8)", "steps": 12, "seed": 0, "backward_bits": 8, "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "last", "measured": true, "rate": "hold@4..8", "options": {}}','accuracy',1,4.99000012874603271484e-01,4.56666678190231323242e-01,12,'49029173760',2.19601418199999898206e+00,'{}','[{"step": 12, "bits": 8.0, "loss": 1.9988477031389873, "validation": 0.4566666781902313, "Fisher information": 31.672014043832064, "gradient over noise": 46.16756731484202, "gradient diversity": 0.5058843943761273, "gradient after a change of bits": 3.716097541805733, "update after a change of bits": 0.7616999367324706}]','{"bitcycle": "0.1.0", "torch": "2.13.0+cpu", "numpy": "2.4.6", "python": "3.11.7", "machine": "Linux x86_64", "device": "cpu", "threads": "1"}','2026-11-16T17:52:26+00:00');
INSERT INTO "records" VALUES('f76519597c52bb7a','graph','CR:1-8:cycles=8',0,'{"task": "graph", "schedule": "CR:1-8:cycles=8", "steps": 12, "seed": 0, "backward_bits": "max", "model": "", "data": "", "batch_size": 0, "autocast": false, "compiled": false, "keep": "best", "measured": false, "rate": "", "options": {}}','accuracy',1,0.5,4.73333328962326049804e-01,12,'44039666688',1.85598786989999098295e+01,'{}','[{"step": 12, "bits": 3.0, "loss": 2.1988002359867096, "validation": 0.47333332896232605}]','{"bitcycle": "0.1.0", "torch": "2.13.0+cpu", "numpy": "2.4.6", "python": "3.11.7", "machine": "Linux x86_64", "device": "cpu", "threads": "1"}','2026-11-16T17:51:49+00:00');
CREATE TABLE studies (name TEXT PRIMARY KEY, plan TEXT, command TEXT, begun TEXT) WITHOUT ROWID;
INSERT INTO "studies" VALUES('broken','name = "broken"

[[part]]
task = "image"
schedules = ["static:8"]
bits = [[2, 8]]
cycles = [8]
seeds = [0]
steps = 4
backward_bits = "max"
data = "/data/digits"
batch_size = 0
autocast = false
keep = "best"
','bitcycle study image --data /data/digits --schedules static:8 --seeds 1 --steps 4 --name broken --store s.sqlite --out r3 --workers 1','2026-11-16T17:52:56+00:00');
INSERT INTO "studies" VALUES('probe','name = "probe"

[[deficit]]
task = "graph"
bits = [1, 8]
steps = 8
lengths = [0.0, 0.5]
window = 0.5
starts = [0.5]
recovery = "rest"
seeds = [0]
arms = ["held", "restarted", "longer"]
measured = true
batch_size = 0
','bitcycle deficit graph --steps 8 --lengths 0,0.5 --starts 0.5 --seeds 1 --name probe --store s.sqlite --out r2 --workers 2','2026-11-16T17:52:03+00:00');
INSERT INTO "studies" VALUES('tiny','name = "tiny"

[[part]]
task = "graph"
schedules = ["CR", "static q_max", "full"]
bits = [[1, 8]]
cycles = [8]
seeds = [0, 1]
steps = 12
backward_bits = "max"
batch_size = 0
autocast = false
keep = "best"
','bitcycle study graph --schedules CR --schedules ''static q_max'' --schedules full --steps 12 --seeds 2 --name tiny --store s.sqlite --out r1 --workers 2','2026-11-16T17:51:19+00:00');
COMMIT;
