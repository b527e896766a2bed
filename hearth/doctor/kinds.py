"""Every kind of finding, with the text that people read; docs/findings/ is generated from it."""

from typing import Final

from hearth.doctor.finding import Kind, Severity

ALL: Final[dict[str, Kind]] = {}


def _kind(
    name: str, severity: Severity, title: str, means: str, todo: str, fix: bool = False
) -> Kind:
    ALL[name] = Kind(name, severity, title, means, todo, fix)
    return ALL[name]


SERVICE_DOWN = _kind(
    "HEARTH-SERVICE-DOWN",
    "error",
    "A program does not run",
    "The program has ended or was stopped, so its functions are unavailable. The rest of the "
    "house keeps working.",
    "`sudo hearth doctor --fix` starts it. If it ends again, `hearth logs NAME` shows why.",
    fix=True,
)
SERVICE_LOOPS = _kind(
    "HEARTH-SERVICE-LOOPS",
    "error",
    "A program keeps exiting",
    "systemd starts the program again and again, and it ends each time. It never becomes "
    "`failed`, so other tools may call it active.",
    "Read the reason in the evidence and in `hearth logs NAME`. A wrong setting is corrected in "
    "inventory/local; `hearth up` then restarts the program.",
)
SERVICE_HUNG = _kind(
    "HEARTH-SERVICE-HUNG",
    "error",
    "A program hangs",
    "Its process is there and does not answer: it was stopped by a signal, waits for a disk, or "
    "is deadlocked.",
    "`sudo hearth doctor --fix` restarts it; requests in progress are cut off.",
    fix=True,
)
SERVICE_SLOW = _kind(
    "HEARTH-SERVICE-SLOW",
    "error",
    "A program answers too late",
    "Its health answers correctly, and later than its record allows (`within_s`). People notice "
    "this as waiting. Usually the processor, the memory or the disk is taken by something else.",
    "Look for the program that takes the processor (`top`) or the disk (`iotop`). If this is its "
    "usual speed on this machine, allow more in its record's `health: {within_s: …}`.",
)
SERVICE_UNHEALTHY = _kind(
    "HEARTH-SERVICE-UNHEALTHY",
    "error",
    "A program runs and does not work",
    "The program answers its health check with an error or with the wrong text.",
    "`sudo hearth doctor --fix` restarts it. If that does not help, `hearth logs NAME` shows why.",
    fix=True,
)
INCUS_DOWN = _kind(
    "HEARTH-INCUS-DOWN",
    "error",
    "Incus does not answer",
    "Instances go on running, but nothing can look into them, and none is started again.",
    "`sudo hearth doctor --fix` restarts Incus, which leaves running instances alone. Its reason "
    "is in `journalctl -u incus`.",
    fix=True,
)
OUT_OF_MEMORY = _kind(
    "HEARTH-OUT-OF-MEMORY",
    "error",
    "The kernel killed a program because memory ran out",
    "A program needed more memory than its instance or the machine had, so the kernel killed it. "
    "systemd starts it again, and a large request may end it once more.",
    "Raise `limits: {memory: …}` of the service in inventory/local/services.yml if the machine "
    "has memory left; otherwise use a smaller model. This finding ends an hour after the last "
    "kill.",
)
CONNECTIONS = _kind(
    "HEARTH-CONNECTIONS",
    "error",
    "Services do not reach each other",
    "A service that needs another one cannot reach it, although both run. Packets are lost, or "
    "a firewall rejects them.",
    "Compare `nft list ruleset` with what the evidence names; `hearth up` loads the house's own "
    "rules again.",
)
GPU_ON_CPU = _kind(
    "HEARTH-GPU-ON-CPU",
    "error",
    "A service computes on the processor, not on the card",
    "The service is configured for a card and found none when it started, or a software device "
    "(llvmpipe) that only imitates one. Answers take many times as long.",
    "Look at `hearth logs NAME` around its start; docs/gpu.md names what a card needs. Write "
    "`gpu: none` or `gpu: software` if this is on purpose.",
)
MODEL_ON_CPU = _kind(
    "HEARTH-MODEL-ON-CPU",
    "warning",
    "A loaded model does not fit on the card",
    "A part of the model, or all of it, was put into the machine's memory, because the card was "
    "full when the model was loaded. It answers several times more slowly.",
    "`sudo hearth doctor --fix` unloads the model; its next request loads it again, with the "
    "memory that is free then. If it comes back, use a smaller model or a shorter `context`.",
    fix=True,
)
GPU_DRIVER = _kind(
    "HEARTH-GPU-DRIVER",
    "error",
    "The card's driver does not work",
    "There is a card, and its driver is not loaded, or its kernel module and its libraries are of "
    "different versions. Nothing can compute on the card.",
    "Reboot after an update of the driver. Without a driver, install it as docs/gpu.md describes.",
)
SWAP = _kind(
    "HEARTH-SWAP",
    "warning",
    "A model's memory is in the swap space",
    "The machine had too little memory and moved a part of a model to its disk. Answers become "
    "slow at random.",
    "`sudo hearth doctor --fix` unloads the models of that service, or restarts it; that frees "
    "the swap space. For good, use smaller models, or run fewer services.",
    fix=True,
)
DISK_LOW = _kind(
    "HEARTH-DISK-LOW",
    "warning",
    "A disk is nearly full",
    "Little space is left on a disk with data of the house. Programs cannot store what people "
    "write once it is full.",
    "Free some space: `incus image list`, old backups and unused models are the usual places.",
)
DISK_FULL = _kind(
    "HEARTH-DISK-FULL",
    "error",
    "A disk is full",
    "Programs can no longer store what people write, and some end.",
    "Free some space now. Programs that ended start again by themselves.",
)
CLOCK_WRONG = _kind(
    "HEARTH-CLOCK-WRONG",
    "error",
    "A clock is wrong",
    "The time of a program or of the machine is off. Certificates are rejected, sessions end or "
    "never end, and backups are sorted wrongly.",
    "Set the machine's clock (`timedatectl set-time`) and let it be synchronised (`apt install "
    "systemd-timesyncd`). Where the evidence names one program, restart that one.",
)
CERTIFICATE_ENDING = _kind(
    "HEARTH-CERTIFICATE-ENDING",
    "error",
    "A certificate is near its end",
    "Caddy renews a site's certificate after two thirds of its life, and `hearth up` renews the "
    "house's own authority. This one was not renewed in time; devices reject it once it has ended.",
    "Run `hearth up`. For a site's certificate, `hearth logs caddy` shows why it was not renewed.",
)
DNS_OTHER_SERVER = _kind(
    "HEARTH-DNS-OTHER-SERVER",
    "error",
    "Another DNS server answers for the house's names",
    "A device that asks that server gets a wrong address, or none, although the house works.",
    "Let the router announce the house as its only DNS server, or remove the house's names from "
    "that server. docs/dns.md has the steps for common routers.",
)
ADDRESS_CHANGED = _kind(
    "HEARTH-ADDRESS-CHANGED",
    "warning",
    "The house's address on the LAN has changed",
    "The router gave the machine another address. Devices and routers that still use the old "
    "one no longer find the house.",
    "Enter the new address where the old one is entered as the DNS server, or reserve the old one "
    "for this machine in the router. Then run `hearth up`.",
)
PORT_TAKEN = _kind(
    "HEARTH-PORT-TAKEN",
    "error",
    "Another program holds a port of the house",
    "A program that does not belong to the house listens where a part of the house must, so that "
    "part cannot start.",
    "Stop that program (`systemctl disable --now NAME`), or move it to another port.",
)
FIREWALL_GONE = _kind(
    "HEARTH-FIREWALL-GONE",
    "error",
    "The house's firewall rules are not loaded",
    "The rules were removed or could not be loaded. Without them nothing passes between "
    "instances: the house is closed, not open.",
    "`sudo hearth doctor --fix` loads them again. If that fails, the evidence has the reason; "
    "`hearth up` rewrites the rules.",
    fix=True,
)
FIREWALL_BLOCKS = _kind(
    "HEARTH-FIREWALL-BLOCKS",
    "error",
    "Another firewall drops the house's packets",
    "Every firewall on the machine must accept a packet, and another one drops those between "
    "instances or from devices.",
    "Run the command in the evidence, which adds the house to the other firewall's exceptions.",
)
DOCKER_BLOCKS = _kind(
    "HEARTH-DOCKER-BLOCKS",
    "error",
    "Docker's rules drop the house's packets",
    "Docker drops forwarded packets that it does not know. The house adds its exception to the "
    "chain that Docker reserves for others; the exception is gone.",
    "`sudo hearth doctor --fix` adds it again.",
    fix=True,
)
FILE_EDITED = _kind(
    "HEARTH-FILE-EDITED",
    "warning",
    "A file of the house was edited by hand",
    "A file that Hearth writes was changed or removed since. The next `hearth up` overwrites it, "
    "so the change is lost then.",
    "Make the change in inventory/local, so that it is kept. `sudo hearth doctor --fix` writes the "
    "file again as the inventory describes it and restarts its program: your edit is lost.",
    fix=True,
)
SECRET_MISSING = _kind(
    "HEARTH-SECRET-MISSING",
    "error",
    "A secret is missing",
    "A secret that the house needs has no value in the vault, or the vault cannot be opened. "
    "Programs go on with what they have, and do not start again without it.",
    "Put inventory/secrets.yml and the vault's password back from a backup. `hearth up` makes a "
    "new random value for a single one; its old value is void then. `hearth secret set NAME` "
    "sets a given one.",
)
KEY_REVOKED = _kind(
    "HEARTH-KEY-REVOKED",
    "error",
    "A key is rejected",
    "The provider, or the house itself, rejects a key that the house uses: it was revoked, has "
    "ended, or differs from the one that was deployed.",
    "Make a new key at the provider and run `hearth secret set NAME`, then `hearth up`. For a "
    "consumer of the house, `hearth up` deploys the vault's value again.",
)
MODEL_MISSING = _kind(
    "HEARTH-MODEL-MISSING",
    "error",
    "A model is missing",
    "A model that an alias uses is not there. The alias answers with its next model, or not at "
    "all.",
    "Run `hearth up`, which downloads it again. On an external server, follow the evidence.",
)
MODEL_FAILED = _kind(
    "HEARTH-MODEL-FAILED",
    "warning",
    "A model's download has failed for a day",
    "Hearth tries again and again, and every try has failed since the time in the evidence.",
    "`sudo hearth doctor --fix` tries again at once. Look for the reason in the evidence: a wrong "
    "name, no internet access, or a full disk.",
    fix=True,
)
MODELS_UNKNOWN = _kind(
    "HEARTH-MODELS-UNKNOWN",
    "warning",
    "The state of a server's models is unknown",
    "The program that downloads a server's models has written no status for minutes, or an "
    "external server lists no models. Models that are there still answer.",
    "`sudo hearth doctor --fix` restarts the downloads. For an external server, look at that "
    "server.",
    fix=True,
)
IMAGE_OUTDATED = _kind(
    "HEARTH-IMAGE-OUTDATED",
    "warning",
    "An instance was made from an older image",
    "The service's packages or its Debian release have changed since the instance was made.",
    "Run `hearth up`, which rebuilds the instance. Its data are in volumes and stay.",
)
IMAGE_UNFINISHED = _kind(
    "HEARTH-IMAGE-UNFINISHED",
    "warning",
    "A half-finished image takes space",
    "A run was killed while it built an image. What it left is of no use.",
    "`sudo hearth doctor --fix` removes it.",
    fix=True,
)
VERSION_OLD = _kind(
    "HEARTH-VERSION-OLD",
    "warning",
    "A program is older than its minimum version",
    "Older versions have known vulnerabilities, or are missing features that Hearth needs. The "
    "reason is in the evidence.",
    "For a Debian package run `apt-get update && apt-get upgrade` where the evidence says. For "
    "others update Hearth and run `hearth up`.",
)
BACKUP_OLD = _kind(
    "HEARTH-BACKUP-OLD",
    "warning",
    "The last backup is old",
    "A backup is made every night, and none was made for two days or more. What was written since "
    "is in no backup.",
    "`journalctl -u hearth-backup` shows why the last one failed. `hearth backup` makes one now.",
)
BACKUP_UNREADABLE = _kind(
    "HEARTH-BACKUP-UNREADABLE",
    "error",
    "The last backup cannot be read",
    "The newest file among the backups is damaged, cut off, not a backup, or no longer what it was "
    "when made. It restores nothing.",
    "Look at the disk (`dmesg`), then run `hearth backup`. `hearth restore --check FILE` reads a "
    "backup whole.",
)
RUNS_TWO = _kind(
    "HEARTH-RUNS-TWO",
    "error",
    "Two runs change the machine at once",
    "A lock allows one run of `hearth up` at a time, and processes of two are at work: the lock "
    "was removed. Both write the same files.",
    "Stop one of them, wait for the other, then run `hearth up` once more.",
)
RUN_UNFINISHED = _kind(
    "HEARTH-RUN-UNFINISHED",
    "warning",
    "A run was cut short",
    "A run was killed or the power failed, so a part of the house is as the inventory describes "
    "it now and another is as before.",
    "Run `hearth up`, which repeats what is missing. `sudo hearth doctor --fix` ends the "
    "processes that the run left, or completes the part that the evidence names.",
    fix=True,
)
COMMAND_UNFINISHED = _kind(
    "HEARTH-COMMAND-UNFINISHED",
    "error",
    "A restore or a removal was cut short",
    "The command was killed or the power failed in the middle of it, so a part of the data or of "
    "the house is missing.",
    "Run the same command again, as the evidence says; it resumes where it stopped.",
)
HOUSE_SLOWER = _kind(
    "HEARTH-HOUSE-SLOWER",
    "warning",
    "The house is slower than it was",
    "A figure of the last receipt is outside this machine's usual range, which its earlier good "
    "receipts show. The evidence has both numbers.",
    "Run `hearth verify` again while nothing else runs. If it stays, `hearth receipt diff last-1 "
    "last` shows what changed meanwhile: versions, kernel, drivers, digests.",
)
SLOWER_THAN_PHYSICS = _kind(
    "HEARTH-SLOWER-THAN-PHYSICS",
    "warning",
    "A model answers more slowly than this machine allows",
    "`hearth bench llm` measured fewer tokens per second than the band that `hearth plan` computes "
    "from the memory's bandwidth and the bytes that each token moves. The evidence has both, and "
    "the likeliest cause.",
    "Look for causes in this order. It computes on the processor without saying so: "
    "`hearth logs NAME` around its start, and docs/gpu.md. The machine or the card is throttled: "
    "heat, the power profile, a limit of the clock. The memory has one channel: fill the second "
    "slot. The model spilled out of the card: a smaller model, a shorter `context`, or less beside "
    "it on the card. Then run `hearth bench llm --model NAME`.",
)
CANARY_FAILED = _kind(
    "HEARTH-CANARY-FAILED",
    "error",
    "A real piece of work failed",
    "Every few minutes the house speaks a phrase, transcribes a clip and asks each loaded model "
    "for one token. The evidence names what did not work twice in a row, although its program "
    "answers. The service and its tiles are red until a try succeeds.",
    "`hearth verify` tests the whole chain and names the broken step.",
)
WATCHER_SILENT = _kind(
    "HEARTH-WATCHER-SILENT",
    "error",
    "The watcher does not run",
    "The program that looks at the house every few seconds has written nothing for a while. The "
    "page shows an old state, and no alert is sent.",
    "`sudo hearth doctor --fix` restarts it.",
    fix=True,
)
CHECK_FAILED = _kind(
    "HEARTH-CHECK-FAILED",
    "warning",
    "A check of the house failed",
    "Hearth could not find out whether something is wrong here. The house may be well.",
    "Run `sudo hearth doctor` again. If it stays, the evidence names the cause; `hearth support` "
    "collects diagnostics.",
)
# Only Prometheus sees the following ones: the doctor and the page read them from its alerts.
METRICS_MISSING = _kind(
    "HEARTH-METRICS-MISSING",
    "error",
    "A program's figures cannot be read",
    "The program runs, and Prometheus cannot read its figures, or it sends more of them than is "
    "allowed. Alerts that need these figures are missing.",
    "`hearth logs NAME` may show why. If the program sends too many figures, restart it; its "
    "labels are a mistake that its developers want to know of.",
)
SITE_UNREACHABLE = _kind(
    "HEARTH-SITE-UNREACHABLE",
    "error",
    "A name of the house does not answer",
    "Every program runs, and a published name still gives no page: its certificate is not "
    "accepted, or the reverse proxy does not reach the program.",
    "`hearth logs caddy` names the cause. `hearth up` writes the reverse proxy's settings again.",
)
ALERT_NOT_SENT = _kind(
    "HEARTH-ALERT-NOT-SENT",
    "error",
    "An alert could not be sent",
    "One of the ways to people rejects messages or does not answer. The others still work.",
    "`hearth logs alertmanager` shows the answer. Compare the address and the password of that "
    "receiver in inventory/local/services.yml; docs/alerts.md has examples.",
)
BY_PROMETHEUS: Final = {
    one.name: one for one in (METRICS_MISSING, SITE_UNREACHABLE, ALERT_NOT_SENT)
}
