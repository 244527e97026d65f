"""Checks the tables of a run (log.csv, probes.csv, samples.txt) against its log.crc32.

./train writes log.crc32 with each checkpoint (data/files/table_checksum.h): for each of these files
a line NAME BYTES CRC32, the checksum of its first BYTES bytes. Rows that were added later are not
covered. A run without checkpoints has no log.crc32.
"""
import os
import re
import zlib

LINE = re.compile(rb"(log\.csv|probes\.csv|samples\.txt) (\d+) ([0-9a-f]{8})\n")


def read_bytes(path, size=-1):
    """At most `size` bytes of a file, or None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(size)
    except OSError:
        return None


def check(folder, name, say):
    """Warns by say(text) if FOLDER/NAME does not match its checksum. A file that is missing is not
    reported here."""
    path = os.path.join(folder, "log.crc32")
    text = read_bytes(path)
    if text is None:
        return
    if LINE.sub(b"", text):
        say(f"{path}: is damaged: a change of {name} would not be found")
        return
    for known, size, crc in LINE.findall(text):
        data = read_bytes(os.path.join(folder, name), int(size)) if known.decode() == name else None
        if data is not None and (len(data) < int(size) or zlib.crc32(data) != int(crc, 16)):
            say(f"{os.path.join(folder, name)}: was changed or damaged after the last checkpoint (its "
                "checksum differs from log.crc32)")
