"""Files of other programs: load_pytorch.py says what such a file is and what to do, and converts those with nanoGPT's names; a
checkpoint of nanoGPT may hold more than weights."""
import json
import pickle
import types

import numpy
from conftest import needs

from pytorch import model_file

KINDS = {
    b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 548105171\n": "pointer of Git LFS (git lfs pull",
    b"PK\3\4\0\0\x08\x08\0\0\0\0 a zip file": "--from-nanogpt=FILE",
    b"PK\3\4\x14\0\0\0\0\0\0\0 another": "--from-nanogpt=FILE",
    b"\x80\2\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.": "pickle, as an old PyTorch",
    b"GGUF\3\0\0\0\x23\1\0\0\0\0\0\0": "--from-hf=FOLDER",
    b"\x89HDF\r\n\x1a\n\0\0\0\0": "HDF5",
    b"\x1f\x8b\x08\0\0\0\0\0\0\3 gzip": "gzip (unpack it",
    b"<!DOCTYPE html><html><body>404</body></html>": "web page",
    b"\n<html lang=en><body>": "web page",
    b'{"error":"Repository not found"}': "is JSON"}


def test_what_a_file_is_and_what_to_do_is_said(run, tmp_path):
    for content, part in KINDS.items():
        (tmp_path / "x").write_bytes(content)
        ours, theirs = run("train", "--generate=x"), run("load_pytorch.py", "x")
        assert ours.status == theirs.status == 1 and part in theirs.err, theirs.err
        assert "x: not a valid safetensors file: " in ours.err and "scripts/load_pytorch.py FILE says" in ours.err, ours.err
        other = run("load_pytorch.py", "--from-nanogpt=x", "-o", "y")
        assert other.status == 1 and (other.err == theirs.err) == (not content.startswith(b"PK")), other.err


def test_a_file_with_nanogpts_names_is_converted(run, tmp_path):
    """From 16 bits, with torch.compile's prefix, without one of the names of a tied head, with masks."""
    (tmp_path / "text.txt").write_text("the cat sat on the mat. " * 40)
    sizes = "--n-layer=1 --n-head=2 --n-embd=8 --block-size=8 --batch-size=2".split()
    assert not run("train", *sizes, "--max-iters=2", "--sample=0", "--quiet", "--out=out", "text.txt").status
    _, texts, arrays = model_file.read(tmp_path / "out")
    arrays = {name: numpy.copysign(0.25, array) for name, array in arrays.items()}
    model_file.write(str(tmp_path / "plain.st"), {}, arrays)
    usual = run("train", "--evaluate=plain.st", "--n-head=2", "--vocabulary=text.txt", "text.txt")
    assert not usual.status, usual.err
    del arrays["transformer.wte.weight"]
    arrays["transformer.h.0.attn.bias"] = numpy.ones((1, 1, 8, 8))
    for kind, bits in ("F16", lambda a: a.astype("<f2")), ("BF16", lambda a: (a.astype("<f4").view("<u4") >> 16).astype("<u2")):
        header, data = {"__metadata__": {"vocabulary": texts["vocabulary"]}}, b""
        for name, array in arrays.items():
            values = bits(array).tobytes()
            header["_orig_mod." + name] = {"dtype": kind, "shape": array.shape, "data_offsets": [len(data), len(data) + len(values)]}
            data += values
        header = json.dumps(header).encode()
        (tmp_path / "x.st").write_bytes(len(header).to_bytes(8, "little") + header + data)
        refused = run("train", "--evaluate=x.st", "--n-head=2", "text.txt")
        assert refused.status == 1 and "is not F32, F64 or I64 (scripts/load_pytorch.py FILE -o NEW converts it)" in refused.err
        assert not run("load_pytorch.py", "x.st", "-o", "y.st").status
        again = run("train", "--evaluate=y.st", "--n-head=2", "text.txt")
        assert again.out == usual.out, again.err


def test_a_short_header_is_not_taken_for_text(run, tmp_path):
    """A header of 60 or 123 bytes starts with the byte of < or {."""
    for first in b"<{":
        (tmp_path / "x").write_bytes(first.to_bytes(8, "little") + b" " * first)
        for command in ("train", "--generate=x"), ("load_pytorch.py", "x"):
            assert "x: not a valid safetensors file: " in run(*command).err


def checkpoint_put(path, more):
    """A checkpoint of nanoGPT with one layer and `more` beside the weights."""
    torch = needs("torch")
    shapes = {"transformer.wte.weight": (3, 4), "transformer.wpe.weight": (8, 4), "lm_head.weight": (3, 4),
              "transformer.h.0.attn.c_attn.weight": (12, 4)}
    torch.save({"model": {name: torch.ones(shape) for name, shape in shapes.items()}, "model_args": {"n_head": 2}, **more},
               path)


def test_what_a_checkpoint_holds_beside_the_weights(run, tmp_path):
    torch = needs("torch")
    for more, step in (({"iter_num": 7, "best_val_loss": torch.tensor(2.5), "config": {"flag": True, "dtype": "f2"}}, "7"), ({}, None)):
        checkpoint_put(tmp_path / "ckpt.pt", more)
        ending = run("load_pytorch.py", "--from-nanogpt=ckpt.pt", "-o", "x.st")
        assert ending.status == 0, ending.err
        _, texts, arrays = model_file.read(tmp_path / "x.st")
        assert texts.get("step") == step and texts["n-head"] == "2" and (arrays["transformer.wpe.weight"] == numpy.ones((8, 4))).all()


def test_what_could_run_code_is_refused(run, tmp_path):
    checkpoint_put(tmp_path / "ckpt.pt", {"config": types.SimpleNamespace(a=1)})
    ending = run("load_pytorch.py", "--from-nanogpt=ckpt.pt", "-o", "x.st")
    assert ending.status == 1 and "ckpt.pt: no checkpoint that torch.save() wrote: " in ending.err, ending.err
    checkpoint_put(tmp_path / "ckpt.pt", {})
    (tmp_path / "meta.pkl").write_bytes(pickle.dumps({"itos": types.SimpleNamespace(a=1)}))
    ending = run("load_pytorch.py", "--from-nanogpt=ckpt.pt", "--meta=meta.pkl", "-o", "x.st")
    assert ending.status == 1 and "asks for types.SimpleNamespace" in ending.err, ending.err
