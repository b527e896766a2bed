"""Paths, names and units that lead out of where a verb may act."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.attacks import attack
from tests.attacks.answers import refused

if TYPE_CHECKING:
    from tests.attacks.target import Target

GROUP = "Paths and names"
HARMLESS = "services: {}\n"


async def propose(target: Target, path: str, text: str = HARMLESS) -> None:
    answer = await target.verb("propose", {"files": {path: text}, "why": "tidy up", "checks": []})
    refused(answer)
    assert not target.proposals()


@attack(
    GROUP,
    "`propose` a file outside `inventory/local` by `..`, by an absolute path, by another spelling",
    stopped="the path is checked as parts, before and after links are resolved; 400",
)
async def propose_outside(target: Target) -> None:
    for path in (
        "../machines.yml",
        "inventory/local/../../site.yml",
        "inventory/local/../../../../etc/cron.d/agents",
        "/etc/systemd/system/agents.service",
        "//etc/passwd",
        "inventory/services.yml",
        "inventory/local/./../services.yml",
        "inventory\\local\\..\\..\\site.yml",
        "inventory/local/%2e%2e/site.yml",
        "~/.ssh/authorized_keys",
        "site.yml",
        "",
        ".",
        "inventory/local",
        "inventory/local/",
    ):
        await propose(target, path)


@attack(
    GROUP,
    "`propose` through a symbolic link in `inventory/local` that leads outside",
    stopped="links are resolved; what is not a plain file below the folder is refused",
)
async def propose_through_a_link(target: Target) -> None:
    (target.local / "shortcut").symlink_to(target.outside, target_is_directory=True)
    (target.local / "services.yml.link").symlink_to(target.outside / "passwd")
    await propose(target, "inventory/local/shortcut/passwd")
    await propose(target, "inventory/local/services.yml.link")
    assert (target.outside / "passwd").read_text() == target.planted["file"]


@attack(
    GROUP,
    "`propose` names with a NUL byte, a line break, an escape sequence, or 5,000 characters",
    stopped="names have letters, digits, `.`, `_` and `-`; 400",
)
async def propose_strange_names(target: Target) -> None:
    for name in ("a\0.yml", "a\n.yml", "a\x1b[2K.yml", "\u202elmy.yml", "a" * 5000 + ".yml"):
        await propose(target, f"inventory/local/{name}")


@attack(
    GROUP,
    "`propose` the files with secrets, keys, or how the machine is reached",
    stopped="these files belong to people alone",
)
async def propose_secrets(target: Target) -> None:
    for name in ("secrets.yml", "vault.yml", "machines.yml", ".vault-password", "secrets/key.pem"):
        await propose(target, f"inventory/local/{name}", "machines: {house: {ssh: root@evil}}\n")


@attack(
    GROUP,
    "`propose` hidden files and a Git hook",
    stopped="hidden names are refused",
)
async def propose_hidden(target: Target) -> None:
    for name in (".git/hooks/post-commit", ".ansible.cfg", ".env"):
        await propose(target, f"inventory/local/{name}", "#!/bin/sh\nid\n")


@attack(
    GROUP,
    "`propose` YAML that makes Python objects, or a billion strings from ten lines",
    stopped="the project's own reader has no tags and no anchors; the check refuses it",
)
async def propose_yaml_traps(target: Target) -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]")
    for text in (
        "services: !!python/object/apply:os.system ['id']\n",
        "services: !!python/name:os.system\n",
        "\n".join(lines) + "\n",
    ):
        await propose(target, "inventory/local/services.yml", text)


@attack(
    GROUP,
    "reading the log of something other than a service: an option of journalctl, a path, a unit of "
    "the machine",
    stopped="names of the catalogue only; 404",
)
async def logs_of_other_things(target: Target) -> None:
    for name in ("--file=/etc/shadow", "../../etc/shadow", "ssh", "*", "kokoro.service", "-b", ""):
        refused(await target.verb("service_logs", {"service": name}))


@attack(
    GROUP,
    "`http_probe` of other names: an address, a port, a path in the name, somebody else's site",
    stopped="site and service names of the catalogue only",
)
async def probe_of_other_names(target: Target) -> None:
    for name in ("127.0.0.1", "10.140.30.10:11434", "kokoro/../admin", "example.com", "a@kokoro"):
        refused(await target.verb("http_probe", {"name": name}))


@attack(
    GROUP,
    "sandbox verbs with the name of a real instance: run, read, write, systemctl, probe, delete",
    stopped="only names of sandboxes that the broker made are accepted; the engine is not called",
)
async def real_instances(target: Target) -> None:
    for name in ("kokoro", "litellm", "sb-../kokoro", "sb-kokoro", "../kokoro", "kokoro?project=x"):
        for verb, more in (
            ("sandbox_run", {"argv": ["id"]}),
            ("sandbox_read_file", {"path": "/etc/shadow"}),
            ("sandbox_write_file", {"path": "/etc/cron.d/x", "text": "* * * * * root id\n"}),
            ("sandbox_systemctl", {"action": "restart", "unit": "kokoro"}),
            ("sandbox_probe", {"port": 8880, "path": "/health"}),
            ("sandbox_diff", {}),
            ("sandbox_delete", {}),
        ):
            refused(await target.verb(verb, {"name": name, **more}))


@attack(
    GROUP,
    "a sandbox of something that has no copy: a part of the machine, the broker, a path, an option",
    stopped="names of instances in the catalogue only",
)
async def sandbox_of_other_things(target: Target) -> None:
    for name in ("caddy", "broker", "login", "../kokoro", "--help", "kokoro/..", "", "sb-1"):
        refused(await target.verb("sandbox_create", {"service": name}))


@attack(
    GROUP,
    "a sandbox with the service's data, which nobody approved",
    stopped="`with_data` needs a person; refused here",
)
async def sandbox_with_data(target: Target) -> None:
    asked = {"service": "kokoro", "with_data": True}
    refused(await target.verb("sandbox_create", asked))


@attack(
    GROUP,
    "options in the place of a unit or an action (`--host=root@…`, `-H`, `edit`)",
    stopped="a fixed list of actions, and a pattern for units",
)
async def systemctl_options(target: Target) -> None:
    name = await target.sandbox()
    for action, unit in (
        ("--host=root@10.140.30.1", "kokoro"),
        ("restart", "--host=root@10.140.30.1"),
        ("restart", "-Hroot@10.140.30.1"),
        ("edit", "kokoro"),
        ("restart", "kokoro;id"),
        ("restart", "../kokoro"),
    ):
        asked = {"name": name, "action": action, "unit": unit}
        refused(await target.verb("sandbox_systemctl", asked))


@attack(
    GROUP,
    "`sandbox_probe` of another host: an address in the path, a foreign port, a line break",
    stopped="the address is the sandbox's own, and the path must start with `/`",
)
async def sandbox_probe_elsewhere(target: Target) -> None:
    name = await target.sandbox()
    for port, path in (
        (80, "http://10.140.30.10:11434/api/tags"),
        (80, "@10.140.30.10/"),
        (0, "/"),
        (70_000, "/"),
        (-1, "/"),
        (80, "/ HTTP/1.1\r\nHost: litellm\r\n\r\nGET /x"),
    ):
        asked = {"name": name, "port": port, "path": path}
        refused(await target.verb("sandbox_probe", asked))


@attack(
    GROUP,
    "another consumer's sandbox: its files, its end",
    stopped="a sandbox belongs to the consumer that made it",
)
async def sandbox_of_another_consumer(target: Target) -> None:
    name = await target.sandbox()
    asked = {"name": name, "path": "/etc/hostname"}
    refused(await target.verb("sandbox_read_file", asked, key=target.other))
    refused(await target.verb("sandbox_delete", {"name": name}, key=target.other))


@attack(
    GROUP,
    "restarting something other than a service: the broker itself, ssh, an option, all at once",
    stopped="names of the catalogue only",
)
async def restart_other_things(target: Target) -> None:
    for name in ("ssh", "--all", "*", "hearth-login.service", "incus", "../x", "kokoro litellm"):
        for verb in ("restart", "stop", "start"):
            refused(await target.verb(verb, {"service": name}))
    assert not target.proposals()
