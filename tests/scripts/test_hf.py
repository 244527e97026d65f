"""Folders of Hugging Face transformers that contradict themselves, which --from-hf must refuse."""
import json
import shutil

import numpy
import pytest

from pytorch import model_file


@pytest.fixture
def folder(run, tiny_run, tmp_path):
    """A folder that --to-hf wrote, with a tied head."""
    ending = run("load_pytorch.py", tiny_run, "--to-hf=hf")
    assert ending.status == 0, ending.err
    return tmp_path / "hf"


@pytest.fixture
def refused(run):
    """Fails unless --from-hf refuses the folder in one line with this part."""
    def check(part):
        ending = run("load_pytorch.py", "--from-hf=hf", "-o", "back.st")
        assert ending.status == 1 and part in ending.err, ending.err
        assert ending.err.startswith("load_pytorch: ") and ending.err.count("\n") == 1
    return check


def change(folder, **members):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **members}))


def test_a_head_that_differs_from_the_embedding_is_not_tied_to_it(run, folder, refused):
    path = folder / "model.safetensors"
    _, texts, arrays = model_file.read(str(path))
    head = numpy.array(arrays["transformer.wte.weight"])
    model_file.write(str(path), texts, {**arrays, "lm_head.weight": head})
    assert run("load_pytorch.py", "--from-hf=hf", "-o", "back.st").status == 0
    head[0, 0] += 1
    model_file.write(str(path), texts, {**arrays, "lm_head.weight": head})
    refused("lm_head.weight: differs from transformer.wte.weight, but tie_word_embeddings says that they are one")
    change(folder, tie_word_embeddings=False)
    assert run("load_pytorch.py", "--from-hf=hf", "-o", "back.st").status == 0


@pytest.mark.parametrize("value", ["no", 1, [True]])
def test_what_is_neither_true_nor_false_is_refused(folder, refused, value):
    change(folder, tie_word_embeddings=value)
    refused(f"tie_word_embeddings={json.dumps(value)}: ./train cannot be so")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors.index.json", "model.safetensors"])
def test_deeply_nested_files_are_refused(folder, refused, name):
    deep = b"[" * 100000
    if name.endswith("index.json"):
        shutil.move(folder / "model.safetensors", folder / "other.safetensors")
    (folder / name).write_bytes(len(deep).to_bytes(8, "little") + deep if name.endswith("tensors") else deep)
    refused(name)
