"""What the scripted model writes: programs that really run, and records of the inventory."""

from __future__ import annotations

import yaml

DROP_IN = "/etc/systemd/system/kokoro.service.d/90-memory.conf"
MORE_MEMORY = "[Service]\nMemoryMax=2G\n"
"""The fix of a kokoro that a test broke by a limit of its memory in the services' file."""
VOICE_TWO = """  voice_two:
    role: kokoro
    summary: A second voice server.
    offers: [speech, speech_stream]
    address: 10.140.30.40
    port: 8880
    metrics_port: 8880
    packages: [ca-certificates, python3]
    sources: [kokoro_model, kokoro_model_fp16, kokoro_model_int8, kokoro_voices]
    health: {path: /health, contains: '"ok"', within_s: 2, ready_s: 300}
    publish:
      voice-two:
        auth: key
        paths:
          - /v1/audio/speech
          - /v1/audio/stream
          - /v1/audio/jobs
          - /v1/audio/jobs/*
          - /v1/audio/voices
          - /v1/models
    limits: {memory: 2GiB, tasks: 512}
    data:
      - {path: /var/lib/kokoro, copy: none}
"""
LOG_WATCHER = '''import sys, tempfile, time


def alerts(path, follow):
    """Yield each line with ERROR; `follow` waits for more."""
    with open(path, encoding="utf-8", errors="replace") as log:
        number = 0
        while True:
            line = log.readline()
            if not line:
                if not follow:
                    return
                time.sleep(0.5)
                continue
            number += 1
            if "ERROR" in line:
                yield number, line.rstrip()


def main(path, follow=True):
    for number, line in alerts(path, follow):
        print(f"ALERT line {number}: {line}", flush=True)


if len(sys.argv) > 1:
    main(sys.argv[1])
else:  # a try without a log file
    with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
        log.write("INFO started\\nERROR disk is full\\nINFO going on\\n")
        log.flush()
        main(log.name, follow=False)
'''


def with_second_voice(text: str) -> str:
    """Return a services' file with the record of a second voice server at its end."""
    return f"{text.rstrip() or 'services:'}\n{VOICE_TWO}"


def without_second_voice(text: str) -> str:
    """Return a services' file in which that service is to be removed."""
    head = "  voice_two:\n"
    return text.replace(head, f"{head}    present: false\n")


def without_small_limit(text: str) -> str:
    """Return a services' file without the limits of kokoro."""
    content = yaml.safe_load(text)
    del content["services"]["kokoro"]["limits"]
    return yaml.safe_dump(content)


def nmap_ranking(output: str) -> str:
    """Return a program that lists the open ports of an nmap output, the most dangerous first."""
    return f"""import re

OUTPUT = {output!r}
DANGER = {{"telnet": 0, "ftp": 1, "microsoft-ds": 2, "mysql": 3, "http": 7, "ssh": 8, "https": 9}}
found = re.findall(r"(\\d+)/tcp +open +(\\S+) *([^\\n]*)", OUTPUT)
for port, name, version in sorted(found, key=lambda one: DANGER.get(one[1], 5)):
    print(f"{{port}} {{name}} {{version}}".strip())
"""


def log4j_checker(fixed: str) -> str:
    """Return a program that says which log4j-core files are older than a fixed version."""
    return f'''import pathlib, re, sys

FIXED = tuple(int(part) for part in "{fixed}".split("."))


def vulnerable(name):
    found = re.fullmatch(r"log4j-core-(2)\\.(\\d+)(?:\\.(\\d+))?\\.jar", name)
    return bool(found) and tuple(int(part or 0) for part in found.groups()) < FIXED


for folder in sys.argv[1:]:
    for path in pathlib.Path(folder).rglob("log4j-core-*.jar"):
        print(path, "VULNERABLE" if vulnerable(path.name) else "ok")
if not sys.argv[1:]:  # a try without a folder
    for name in ("log4j-core-2.14.1.jar", "log4j-core-2.17.1.jar"):
        print(name, "VULNERABLE" if vulnerable(name) else "ok")
'''
