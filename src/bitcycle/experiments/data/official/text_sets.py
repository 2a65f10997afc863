"""The official text sets, for language modelling and entailment."""

from __future__ import annotations

from bitcycle.experiments.data.official.entry import Official, RemoteFile

_XNLI = "https://dl.fbaipublicfiles.com/XNLI"
_HUGGING_FACE = "Hugging Face datasets (dataset_infos.json)"

ENTRIES = (
    Official(
        "wikitext-2",
        "language",
        (
            RemoteFile(
                "https://wikitext.smerity.com/wikitext-2-v1.zip",  # the author's own; the first host is gone
                4_475_746,
                "sha256:92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c",
                take=("wikitext-2/*",),
                drop=1,
            ),
        ),
        "Creative Commons Attribution-ShareAlike, as Wikipedia's text",
        f"{_HUGGING_FACE}, for the same archive at its former address",
        holds="wiki.train.tokens",
    ),
    Official(
        "xnli",
        "entailment",
        (
            RemoteFile(
                f"{_XNLI}/XNLI-1.0.zip",
                17_865_352,
                "sha256:4ba1d5e1afdb7161f0f23c66dc787802ccfa8a25a3ddd3b165a35e50df346ab1",
                take=("XNLI-1.0/xnli.*.tsv", "XNLI-1.0/README.md"),
                drop=1,
            ),
            RemoteFile(
                f"{_XNLI}/XNLI-MT-1.0.zip",
                466_098_360,
                "sha256:f732517ba2fb1d550e9f3c2aabaef6017c91ee2dcec90e878f138764d224db05",
                take=("XNLI-MT-1.0/multinli/multinli.train.en.tsv",),  # the other languages are machine translations
                drop=2,
            ),
        ),
        "CC BY-NC 4.0; its training sentences are MultiNLI's, mostly under the OANC's licence",
        _HUGGING_FACE,
        holds="xnli.dev.tsv",
    ),
    Official(
        "snli",
        "entailment",
        (
            RemoteFile(
                "https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
                94_550_081,
                "sha256:afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e",
                take=("snli_1.0/*.jsonl", "snli_1.0/README.txt"),
                drop=1,
            ),
        ),
        "CC BY-SA 4.0 (The Stanford NLP Group)",
        f"TensorFlow Datasets (url_checksums) and {_HUGGING_FACE}",
        holds="snli_1.0_train.jsonl",
    ),
)
