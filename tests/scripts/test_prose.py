"""scripts/upkeep/check_prose.py: phrases across the lines of documents, comments and strings; links."""
import pytest

from upkeep import check_prose


def errors(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    return [what for _, what in check_prose.errors(tmp_path / name, text)]


@pytest.mark.parametrize("name, text", [
    ("a.md", "It is 0 at first."), ("a.md", "It is 0 at\nfirst."), ("a.c", "/* It is 0 at\n   first. */"),
    ("a.c", "// it is 0 at\n// first"), ("a.c", '"It is 0 at "\n    "first"'), ("a.py", "# It is 0 at\n# first")])
def test_phrases_are_found_across_lines(tmp_path, name, text):
    found, = errors(tmp_path, name, text)
    assert found.endswith("(write: initially)")


@pytest.mark.parametrize("name, text", [
    ("a.c", '.help = "a slice as long as "\n    "the split"'), ("a.html", "<p>What it can't show</p>"),
    ("a.py", "# It has the bits\n# of a run")])
def test_help_texts_pages_and_comments_are_searched(tmp_path, name, text):
    assert len(errors(tmp_path, name, text)) == 1


def test_other_words_are_not_found(tmp_path):
    assert errors(tmp_path, "a.md", "Understood at first reading; at the first step; to train anew-born") == [
        '"anew" (write: again)']


def test_claims_stay_as_registered_but_their_notes_are_read(tmp_path):
    text = """CLAIMS = [Claim("B1", "It is 0 "
                 "at first", "B, claim 1", revised="At first it was 1")]"""
    assert errors(tmp_path, "claims_b.py", text) == ['"At first" (write: initially)']
    assert len(errors(tmp_path, "texts.py", text)) == 2


def test_rows_outside_of_tables_are_found(tmp_path):
    text = "\n| a | b |\n|---|---|\n| 1 | 2 |\n\n| 3 | 4 |\n"
    assert errors(tmp_path, "a.md", text) == ["a row without the head of its table"]


def test_broken_links_are_found(tmp_path):
    text = "# One (and) two\n[a](#one-and-two) [b](a.md) [c](https://x.org/y) [d](b.md) [e](a.md#two)\n"
    assert errors(tmp_path, "a.md", text) == ["no such file or heading: b.md", "no such file or heading: a.md#two"]
