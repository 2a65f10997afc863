"""The site builds without a warning, and notebooks run."""

import json
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT

pytestmark = pytest.mark.slow


def test_the_site_builds(tmp_path):
    """A broken link, a page that is missing or a name that the reference does not find is a warning, so an error."""
    pytest.importorskip("mkdocs", reason="needs the extra docs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "PrecisionScheduler" in (tmp_path / "api.html").read_text()
    assert (tmp_path / "gallery" / "rth-3-8-cycles-8.svg").read_text().startswith("<svg")


@pytest.mark.filterwarnings("ignore")  # Jupyter's own
@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.ipynb")), ids=lambda path: path.name)
def test_notebooks(path, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    content = json.loads(path.read_text())
    assert all(cell.get("outputs", []) == [] and cell.get("execution_count") is None for cell in content["cells"])
    monkeypatch.setenv("BITCYCLE_QUICK", "1")
    notebook = nbformat.read(path, as_version=4)
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources=place).execute()
    shown = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert "less than static 8 bits" in shown
    assert (tmp_path / "out" / "notebook" / "report.html").exists()
