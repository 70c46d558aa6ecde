import re
import subprocess

import pytest

from benchmarks.paths import ROOT

LINKS = re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text())


@pytest.mark.parametrize("link", [link for link in LINKS if "://" not in link])
def test_what_the_readme_links_to_is_in_a_clone(link):
    listed = subprocess.run(["git", "ls-files", "--error-unmatch", link], cwd=ROOT, capture_output=True)
    assert listed.returncode == 0
