#!/usr/bin/env python3
"""Runs static test binaries on an emulated x86-64 processor with AVX-512.

Use it on machines whose own processor has no AVX-512.

    apt-get install busybox-static g++ make        # or, slower: busybox-static bochs bochs-term
    python3 bench/emulate.py --build-bochs         # once; or use Debian's Bochs
    python3 bench/emulate.py -p ifonly-scan        # every test target of the crate
    python3 bench/emulate.py -p ifonly-scan --test answers -- name   # one target, with arguments
    python3 bench/emulate.py --binary target/probe -- --any flags    # any static executable

Bochs emulates a whole machine, here with an Ice Lake processor. The machine has neither firmware
nor disk. The script writes a ROM of a few instructions that jumps into a Debian kernel. The
initial file system of the kernel holds busybox and the tests. The script reads their output from
the serial port. The exit status is 0 if all tests ended with status 0.

`--model` selects other processors, to test code without some features:

    corei7_skylake_x       AVX-512 without VNNI, VBMI and IFMA
    corei3_cnl             VBMI and IFMA without VNNI
    corei7_haswell_4770    AVX2 at most
    core2_penryn_t9600     SSE4.1 at most

The emulation shows whether an answer is right. It shows nothing about time. Documentation tests
are not run. The script downloads the kernel once (`apt-get download`; nothing is installed) and
keeps it in target/emulate/ with all other files.

Bochs 2.7 of Debian 12 is built with a debugger and executes about 30 million instructions per
second. `--build-bochs` builds Bochs 3.0 without a debugger, which executes about 100 million.

Of 200 AVX-512 operations compared with their definition, Bochs computes these wrongly:

- vpmultishiftqb with a mask: the mask is applied to 64-bit lanes instead of bytes.
- vpexpandb and vpexpandw from memory.
- vpshufbitqmb: every eighth bit is 0.
- in 2.7, vgf2p8affineqb: the result is complemented. Compilers also use this instruction for
  shifts of bytes if they may assume GFNI.

A failing test that uses one of these operations proves nothing.
"""

import argparse
import hashlib
import json
import os
import pathlib
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = ROOT / "target" / "emulate"
TARGET = "x86_64-unknown-linux-gnu"
BOCHS = CACHE / "bochs"
# Path in the mirror that apt uses. This version is newer than that of Debian 12.
BOCHS_SOURCE = "pool/main/b/bochs/bochs_3.0+dfsg.orig.tar.xz"
BOCHS_DIGEST = "78f6c73d4a6472d5130a87ab9dc306d02c7c71ed8e25b3a8ef642e2a7acd282b"
BUSYBOX = pathlib.Path("/bin/busybox")

# Without firmware there are neither ACPI tables nor interrupt routes. `clearcpuid` removes
# features that the kernel cannot use here: in Bochs 2.7 CPUID omits the state of PKU, and with
# the fast string instructions the kernel hangs when it patches itself. The clock counts
# instructions, at the rate in CONFIGURATION. The other options save time.
KERNEL_OPTIONS = (
    "console=ttyS0 loglevel=2 panic=-1 acpi=off pci=off noapic clearcpuid=pku,xsaves,xsavec,fsrm,erms "
    "tsc_early_khz=20000 nokaslr mitigations=off lsm=capability cryptomgr.notests "
    "initcall_blacklist=load_system_certificate_list,trace_eval_init,init_kprobe_trace"
)

CONFIGURATION = """
config_interface: textconfig
display_library: {display}
plugin_ctrl: speaker=0
cpu: model={model}, count=1, ips=20000000, reset_on_triple_fault=0
clock: sync=none
memory: guest={memory}, host={memory}
romimage: file={folder}/rom
vgaromimage: file={folder}/display
optramimage1: file={folder}/image, address={base:#x}
com1: enabled=1, mode=file, dev={folder}/serial
log: {folder}/log
panic: action=fatal
error: action=ignore
info: action=ignore
debug: action=ignore
"""

# Load address and entry point of the kernel.
BASE = 0x100000

# Marks the lines of the guest that are meant for this script.
MARK = "\x01emulate "


def fail(message):
    sys.exit(f"emulate.py: {message}")


def need(condition, what, package):
    if not condition:
        fail(f"{what} is missing. Install it with `apt-get install {package}`.")


def is_static(path):
    """Whether this is an executable without a program header that names an interpreter."""
    content = path.read_bytes() if path.exists() else b""
    if content[:5] != b"\x7fELF\2":
        return False
    offset, = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    return all(content[offset + size * index] != 3 for index in range(count))


def build(options):
    """Builds the static test executables of a crate; returns them as (name, path)."""
    command = ["cargo", "test", "--no-run", "--release", "--target", TARGET, "--message-format=json-render-diagnostics"]
    command += ["-p", options.package]
    command += ["--lib"] if options.lib else []
    command += [word for name in options.test for word in ("--test", name)]
    command += [word for name in options.example for word in ("--example", name)]
    command += ["--features", options.features] if options.features else []
    flags = os.environ.get("RUSTFLAGS", "") + " -C target-feature=+crt-static -C strip=debuginfo"
    environment = {**os.environ, "RUSTFLAGS": flags.strip(), "CARGO_TARGET_DIR": str(CACHE / "build")}
    result = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(result.returncode)
    messages = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    return [
        (message["target"]["name"], pathlib.Path(message["executable"]))
        for message in messages
        if message.get("executable") and (message["profile"]["test"] or message["target"]["name"] in options.example)
    ]


def build_bochs():
    """Builds Bochs without its debugger and without a display."""
    for tool, package in (("g++", "g++"), ("make", "make")):
        need(shutil.which(tool), tool, package)
    targets = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)"], capture_output=True, text=True)
    mirror = next((uri for uri in targets.stdout.split() if uri.endswith("/debian/")), None)
    if mirror is None:
        fail("The sources of apt contain no Debian mirror. Use Debian's package bochs instead.")
    print(f"downloading {mirror}{BOCHS_SOURCE}", flush=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="bochs-") as folder:
        archive = pathlib.Path(folder, "source.tar.xz")
        archive.write_bytes(urllib.request.urlopen(mirror + BOCHS_SOURCE).read())
        if hashlib.sha256(archive.read_bytes()).hexdigest() != BOCHS_DIGEST:
            fail("The SHA-256 of the downloaded Bochs source is not the expected one.")
        tarfile.open(archive).extractall(folder)
        source, = pathlib.Path(folder).glob("bochs-*")
        enabled = ["x86-64", "avx", "evex", "protection-keys", "all-optimizations", "long-phy-address"]
        configure = ["./configure", "--with-nogui", "--disable-docbook", *(f"--enable-{name}" for name in enabled)]
        environment = {**os.environ, "CFLAGS": "-O3", "CXXFLAGS": "-O3 -fomit-frame-pointer"}
        for command in (configure, ["make", f"-j{os.cpu_count()}"]):
            print(f"running {command[0]}, a few minutes", flush=True)
            result = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True)
            if result.returncode != 0:
                fail(f"{command[0]} failed:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
        shutil.move(source / "bochs", BOCHS)


def kernel():
    """Returns the path of a Debian kernel. Downloads it unless the cache has one."""
    found = sorted(CACHE.glob("vmlinuz-*"))
    if found:
        return found[-1]
    need(shutil.which("apt-get"), "apt-get (or another kernel with --kernel)", "apt")
    depends = subprocess.run(["apt-cache", "depends", "linux-image-cloud-amd64"], capture_output=True, text=True).stdout
    package = re.search(r"Depends: (linux-image-\S+)", depends)
    if package is None:
        fail("apt has no package linux-image-cloud-amd64. Run apt-get update, or use --kernel.")
    print(f"downloading {package[1]}", flush=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        subprocess.run(["apt-get", "-qq", "download", package[1]], cwd=folder, check=True)
        archive, = pathlib.Path(folder).glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", archive, folder], check=True)
        image, = pathlib.Path(folder, "boot").glob("vmlinuz-*")
        return pathlib.Path(shutil.move(image, CACHE / image.name))


def initial_files(binaries, arguments, variables):
    """Returns the initial file system, a cpio archive: busybox, binaries and a start script."""
    archive = bytearray()

    def add(name, mode, content=b"", device=(0, 0)):
        path = name.encode() + b"\0"
        fields = (len(archive) + 1, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(path), 0)
        archive.extend(b"070701" + b"".join(b"%08x" % field for field in fields) + path)
        archive.extend(bytes(-len(archive) % 4))
        archive.extend(content)
        archive.extend(bytes(-len(archive) % 4))

    script = [
        "#!/busybox sh",
        "/busybox mount -t proc proc /proc",
        "/busybox mount -t devtmpfs dev /dev",
        "/busybox mount -t tmpfs tmp /tmp",
        "/busybox stty -opost",
        "cd /tmp",
        f"echo \"{MARK}flags $(/busybox grep -m1 ^flags /proc/cpuinfo)\"",
        *(f"export {shlex.quote(variable)}" for variable in variables),
    ]
    for folder in ("dev", "proc", "tmp"):
        add(folder, 0o40755)
    add("dev/console", 0o20600, device=(5, 1))
    add("busybox", 0o100755, BUSYBOX.read_bytes())
    for index, (_, path) in enumerate(binaries):
        add(f"run{index}", 0o100755, path.read_bytes())
        script += [
            f"echo '{MARK}start {index}'",
            shlex.join([f"/run{index}", *arguments]),
            f"echo \"{MARK}exit $?\"",
        ]
    script += [f"echo '{MARK}end'", "/busybox sleep 1000000"]
    add("init", 0o100755, "\n".join(script).encode() + b"\n")
    add("TRAILER!!!", 0)
    return bytes(archive)


def boot_image(bzimage, files, memory):
    """Returns the memory image that a boot loader creates, from BASE on.

    Also returns the address of the kernel's parameters in it. The offsets are those of the 32-bit
    boot protocol: https://docs.kernel.org/arch/x86/boot.html
    """
    if bzimage[0x202:0x206] != b"HdrS":
        fail("The kernel is not a Linux bzImage.")
    preferred, needed = struct.unpack_from("<QI", bzimage, 0x258)
    parameters = preferred + needed + 0xFFF & ~0xFFF
    initial = parameters + 0x2000
    end = initial + len(files)
    if end + (64 << 20) > memory << 20:
        fail(f"{memory} MB are not enough for {len(files) >> 20} MB of files. Increase --memory.")

    page = bytearray(0x1000) + KERNEL_OPTIONS.encode().ljust(0x1000, b"\0")
    header = slice(0x1F1, 0x202 + bzimage[0x201])
    page[header] = bzimage[header]
    page[0x210] = 0xFF  # an unregistered boot loader
    struct.pack_into("<II", page, 0x218, initial, len(files))
    struct.pack_into("<I", page, 0x228, parameters + 0x1000)
    usable = [(0, 0x9F000), (BASE, (memory << 20) - BASE)]
    page[0x1E8] = len(usable)
    for index, (start, length) in enumerate(usable):
        struct.pack_into("<QQI", page, 0x2D0 + 20 * index, start, length, 1)

    setup = 512 * (1 + (bzimage[0x1F1] or 4))
    image = bytearray(end - BASE)
    image[: len(bzimage) - setup] = bzimage[setup:]
    image[parameters - BASE : initial - BASE] = page
    image[initial - BASE :] = files
    return bytes(image), parameters


def boot_rom(parameters, end):
    """Returns a ROM that enters protected mode and jumps to the kernel.

    Bochs reads an image into consecutive blocks of its own memory, but assigns blocks to
    addresses in the order of their first use. Therefore the ROM first touches every block from
    BASE to the end of the image.
    """
    rom = bytearray(0x10000)
    real, protected, table = 0x8000, 0x8040, 0x8080

    def put(at, *parts):
        code = b"".join(bytes.fromhex(part) if isinstance(part, str) else part for part in parts)
        rom[at : at + len(code)] = code

    word = lambda value: struct.pack("<I", value)
    put(0xFFF0, "e9", struct.pack("<h", real - 0xFFF3))  # jmp real
    put(
        real,
        "fa",  # cli
        "2e 66 0f 01 16", struct.pack("<H", table),  # lgdt cs:[table]
        "0f 20 c0 0c 01 0f 22 c0",  # cr0 |= 1
        "66 ea", word(0xF0000 + protected), "10 00",  # jmp 0x10:protected
    )
    put(
        protected,
        "66 b8 18 00 8e d8 8e c0 8e d0",  # ds = es = ss = 0x18
        "b8", word(BASE),  # mov eax, BASE
        # again: mov cl, [eax]; add eax, 0x10000; cmp eax, end; jb again
        "8a 08 05 00 00 01 00 3d", word(end), "72 f2",
        "31 ed 31 ff 31 db",  # ebp = edi = ebx = 0
        "be", word(parameters),  # mov esi, parameters
        "b8", word(BASE), "ff e0",  # jmp BASE
    )
    flat = 0x00CF_0000_0000_FFFF
    put(table, struct.pack("<HIxxQQQQ", 31, 0xF0000 + table + 8, 0, 0, flat | 0x9A << 40, flat | 0x92 << 40))
    return bytes(rom)


class Machine:
    """A running Bochs process. Debian's Bochs needs a terminal, so this class provides one."""

    def __init__(self, folder):
        command = [BOCHS if BOCHS.exists() else "bochs", "-q", "-f", f"{folder}/configuration"]
        if not BOCHS.exists():  # Debian's debugger waits for a command
            pathlib.Path(folder, "commands").write_text("continue\n")
            command += ["-rc", f"{folder}/commands"]
        pathlib.Path(folder, "serial").touch()
        self.folder, self.status, self.screen = folder, None, b""
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.environ["TERM"] = "vt100"
            os.execvp(command[0], command)

    def lines(self):
        """Yields the lines of the serial port, and None without a new line; ends with Bochs."""
        rest = ""
        with open(f"{self.folder}/serial", errors="replace", newline="") as serial:
            while True:
                ended = self.ended()
                *complete, rest = (rest + serial.read()).split("\n")
                yield from (line.rstrip("\r") for line in complete)
                if ended:
                    return
                yield None

    def ended(self):
        if select.select([self.terminal], [], [], 0.1)[0]:
            try:
                self.screen = (self.screen + os.read(self.terminal, 1 << 16))[-2000:]
            except OSError:  # Bochs has closed its side
                time.sleep(0.1)
        if self.status is None:
            process, status = os.waitpid(self.process, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if process else None
        return self.status is not None

    def stop(self):
        if self.status is None:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        os.close(self.terminal)

    def report(self):
        """Returns the reason why Bochs ended, from its log or its screen."""
        log = pathlib.Path(self.folder, "log")
        text = log.read_text(errors="replace") if log.exists() else ""
        return "\n".join(text.splitlines()[-25:]) or re.sub(rb"[^\n -~]", b"", self.screen).decode()


def emulate(options, binaries, arguments):
    """Runs the binaries one after another; returns the names of those that failed."""
    bzimage = (options.kernel or kernel()).read_bytes()
    image, parameters = boot_image(bzimage, initial_files(binaries, arguments, options.env), options.memory)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="run-") as folder:
        pathlib.Path(folder, "image").write_bytes(image)
        # An empty ROM.
        pathlib.Path(folder, "display").write_bytes(b"\x55\xaa\x01".ljust(512, b"\0"))
        pathlib.Path(folder, "rom").write_bytes(boot_rom(parameters, BASE + len(image)))
        display = "nogui" if BOCHS.exists() else "term"
        configuration = CONFIGURATION.format(
            display=display, model=options.model, memory=options.memory, folder=folder, base=BASE
        )
        pathlib.Path(folder, "configuration").write_text(configuration)
        machine = Machine(folder)
        try:
            return follow(machine, binaries, options.timeout)
        finally:
            machine.stop()


def follow(machine, binaries, timeout):
    failed, running, start = [], None, time.monotonic()
    for line in machine.lines():
        seconds = time.monotonic() - start
        if line is None:
            if timeout and seconds > timeout:
                fail(f"{running or 'the kernel'} did not finish in {timeout} seconds (--timeout)")
            continue
        output, mark, rest = line.partition(MARK)
        if output or not mark:
            print(output, flush=True)
        if mark:
            what, _, value = rest.partition(" ")
            if what == "flags":
                wanted = [flag for flag in value.split() if re.match("avx|aes|vaes|gfni|sha|vpclmul|bmi|fma", flag)]
                print(f"booted in {seconds:.0f} s: {' '.join(wanted)}", flush=True)
            elif what == "start":
                running = binaries[int(value)][0]
                print(f"running {running}", flush=True)
            elif what == "exit":
                print(f"{running} ended with {value} after {seconds:.0f} s\n", flush=True)
                failed += [running] if value != "0" else []
            elif what == "end":
                return failed
            start = time.monotonic()
    what = running or "its kernel"
    fail(f"The emulated machine stopped before {what} finished:\n{machine.report()}")


def main():
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="%(prog)s [options] [-- arguments of the executables]",
    )
    several = {"action": "append", "default": []}
    what = parser.add_argument_group("executables (options with * may be repeated)")
    add = what.add_argument
    add("-p", "--package", metavar="CRATE", help="build and run the tests of this crate (release)")
    add("--lib", action="store_true", help="only the unit tests and other named targets")
    add("--test", **several, metavar="NAME", help="* only tests/NAME.rs and other named targets")
    add("--example", **several, metavar="NAME", help="* also run examples/NAME.rs")
    add("--features", help="features of the crate, as for cargo")
    add("--binary", **several, type=pathlib.Path, metavar="PATH", help="* a static executable")
    add("--env", **several, metavar="NAME=VALUE", help="* environment variable for the executables")
    add = parser.add_argument_group("emulated machine").add_argument
    add("--model", default="corei7_icelake_u", help="processor (default: %(default)s)")
    add("--memory", type=int, default=1024, metavar="MB", help="memory (default: %(default)s)")
    add("--timeout", type=float, metavar="SECONDS", help="limit for the boot and each executable")
    add("--kernel", type=pathlib.Path, metavar="PATH", help="bzImage to use instead of Debian's")
    add("--build-bochs", action="store_true", help="build a faster Bochs; later runs use it")
    options = parser.parse_args(sys.argv[1:split])
    if not (options.package or options.binary or options.build_bochs):
        parser.error("give a crate with -p or an executable with --binary")

    CACHE.mkdir(parents=True, exist_ok=True)
    if options.build_bochs:
        build_bochs()
    elif not BOCHS.exists():
        faster = "bochs bochs-term` or build a faster one with `emulate.py --build-bochs"
        need(shutil.which("bochs"), "bochs", faster)
        plugins = pathlib.Path("/usr/lib").glob("*/bochs/plugins/libbx_term_gui.so")
        need(list(plugins), "the terminal display of Bochs", "bochs-term")
    need(is_static(BUSYBOX), "a static busybox", "busybox-static")
    binaries = [(path.name, path) for path in options.binary] + (build(options) if options.package else [])
    if not binaries:
        return
    for _, path in binaries:
        if not is_static(path):
            fail(
                f"{path} is not a static executable. "
                "Build it with RUSTFLAGS='-C target-feature=+crt-static'."
            )
    failed = emulate(options, binaries, sys.argv[split + 1 :])
    if failed:
        fail(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
