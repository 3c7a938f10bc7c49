#!/usr/bin/env python3
"""Runs static test binaries on an emulated x86-64 with AVX-512, for machines whose own processor has none.

    apt-get install busybox-static g++ make                         # or, slower: busybox-static bochs bochs-term
    python3 bench/emulate.py --build-bochs                          # once; or use Debian's
    python3 bench/emulate.py -p ifonly-scan                         # every test target of the crate
    python3 bench/emulate.py -p ifonly-scan --test answers -- name  # one of them, with arguments for it
    python3 bench/emulate.py --binary target/probe -- --any flags   # a static executable of your own

Bochs is a whole machine in software, an Ice Lake here. It has neither firmware nor disk: the script writes a ROM
of a few instructions that jumps straight into a Debian kernel, whose initial file system holds busybox and the
tests. Their output comes back over the serial port. The exit status is 0 if all of them ended with 0.

Other processors show what code does without some features: --model corei7_skylake_x has AVX-512 without VNNI, VBMI
and IFMA, corei3_cnl has VBMI and IFMA without VNNI, corei7_haswell_4770 stops at AVX2, core2_penryn_t9600 at SSE4.1.

It tells whether an answer is right, never how long it takes. Documentation tests are not run. The kernel is
downloaded once (`apt-get download`, nothing is installed) and kept in target/emulate/ with everything else.

Debian 12's Bochs 2.7 is built with a debugger and executes some 30 million instructions a second; --build-bochs
builds 3.0 without one, which executes 100 million. Of 200 AVX-512 operations compared with their definition, some
come out wrong, so tests that fail on these say nothing: vpmultishiftqb with a mask (applied to 64-bit lanes instead
of bytes), vpexpandb and vpexpandw from memory, vpshufbitqmb (every eighth bit is 0), and in 2.7 vgf2p8affineqb
(complemented; compilers also use it for shifts of bytes when they may assume GFNI).
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
# Inside the mirror that apt uses; a newer one than Debian 12 has.
BOCHS_SOURCE = "pool/main/b/bochs/bochs_3.0+dfsg.orig.tar.xz"
BOCHS_DIGEST = "78f6c73d4a6472d5130a87ab9dc306d02c7c71ed8e25b3a8ef642e2a7acd282b"
BUSYBOX = pathlib.Path("/bin/busybox")

# Without firmware there are neither ACPI tables nor interrupt routes. The features cleared are those that a kernel
# cannot use here: in 2.7 CPUID leaves out the state of PKU, and with the fast string instructions it hangs when it
# patches itself. The clock counts instructions, as many as CONFIGURATION says. The rest saves time.
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

# Where the kernel is put and entered.
BASE = 0x100000

# Lines of the guest that are for this script have this.
MARK = "\x01emulate "


def fail(message):
    sys.exit(f"emulate.py: {message}")


def need(condition, what, package):
    if not condition:
        fail(f"{what} is missing; install it with `apt-get install {package}`")


def is_static(path):
    """Whether this is an executable of which no program header names an interpreter."""
    content = path.read_bytes() if path.exists() else b""
    if content[:5] != b"\x7fELF\2":
        return False
    offset, = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    return all(content[offset + size * index] != 3 for index in range(count))


def build(options):
    """The static test executables of a crate, as (name, path)."""
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
    """Builds Bochs without what slows it down, and without a display."""
    for tool, package in (("g++", "g++"), ("make", "make")):
        need(shutil.which(tool), tool, package)
    targets = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)"], capture_output=True, text=True)
    mirror = next((uri for uri in targets.stdout.split() if uri.endswith("/debian/")), None)
    if mirror is None:
        fail("apt names no Debian mirror in its sources; use Debian's bochs")
    print(f"downloading {mirror}{BOCHS_SOURCE}", flush=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="bochs-") as folder:
        archive = pathlib.Path(folder, "source.tar.xz")
        archive.write_bytes(urllib.request.urlopen(mirror + BOCHS_SOURCE).read())
        if hashlib.sha256(archive.read_bytes()).hexdigest() != BOCHS_DIGEST:
            fail("the source of Bochs is not what it was")
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
    """A Debian kernel, downloaded unless there is one already."""
    found = sorted(CACHE.glob("vmlinuz-*"))
    if found:
        return found[-1]
    need(shutil.which("apt-get"), "apt-get (or give a kernel of your own with --kernel)", "apt")
    depends = subprocess.run(["apt-cache", "depends", "linux-image-cloud-amd64"], capture_output=True, text=True).stdout
    package = re.search(r"Depends: (linux-image-\S+)", depends)
    if package is None:
        fail("apt knows no linux-image-cloud-amd64: run apt-get update, or give a kernel of your own with --kernel")
    print(f"downloading {package[1]}", flush=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        subprocess.run(["apt-get", "-qq", "download", package[1]], cwd=folder, check=True)
        archive, = pathlib.Path(folder).glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", archive, folder], check=True)
        image, = pathlib.Path(folder, "boot").glob("vmlinuz-*")
        return pathlib.Path(shutil.move(image, CACHE / image.name))


def initial_files(binaries, arguments, variables):
    """The initial file system, a cpio archive: busybox, the binaries, and a script that runs them in turn."""
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
    """What a boot loader leaves in memory, from BASE on, and the address of the kernel's parameters in it.

    https://docs.kernel.org/arch/x86/boot.html gives the offsets: the 32-bit boot protocol.
    """
    if bzimage[0x202:0x206] != b"HdrS":
        fail("this is no bzImage of Linux")
    preferred, needed = struct.unpack_from("<QI", bzimage, 0x258)
    parameters = preferred + needed + 0xFFF & ~0xFFF
    initial = parameters + 0x2000
    end = initial + len(files)
    if end + (64 << 20) > memory << 20:
        fail(f"{memory} MB of memory are too few for {len(files) >> 20} MB of files: raise --memory")

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
    """A ROM that enters protected mode and jumps to the kernel.

    Bochs reads an image into consecutive blocks of its own memory but gives blocks to addresses in the order of
    their first use, so the ROM first touches every block from BASE to the end of the image.
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
        "8a 08 05 00 00 01 00 3d", word(end), "72 f2",  # again: mov cl, [eax]; add eax, 0x10000; cmp eax, end; jb again
        "31 ed 31 ff 31 db",  # ebp = edi = ebx = 0
        "be", word(parameters),  # mov esi, parameters
        "b8", word(BASE), "ff e0",  # jmp BASE
    )
    flat = 0x00CF_0000_0000_FFFF
    put(table, struct.pack("<HIxxQQQQ", 31, 0xF0000 + table + 8, 0, 0, flat | 0x9A << 40, flat | 0x92 << 40))
    return bytes(rom)


class Machine:
    """A running Bochs. Debian's wants a terminal for its display, so it gets one that nobody reads."""

    def __init__(self, folder):
        command = [BOCHS if BOCHS.exists() else "bochs", "-q", "-f", f"{folder}/configuration"]
        if not BOCHS.exists():  # the debugger waits for a command
            pathlib.Path(folder, "commands").write_text("continue\n")
            command += ["-rc", f"{folder}/commands"]
        pathlib.Path(folder, "serial").touch()
        self.folder, self.status, self.screen = folder, None, b""
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.environ["TERM"] = "vt100"
            os.execvp(command[0], command)

    def lines(self):
        """The lines of the serial port as they come; a None every now and then; ends when Bochs does."""
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
            except OSError:  # the other side is closed
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
        """Why it ended, as far as it says."""
        log = pathlib.Path(self.folder, "log")
        text = log.read_text(errors="replace") if log.exists() else ""
        return "\n".join(text.splitlines()[-25:]) or re.sub(rb"[^\n -~]", b"", self.screen).decode()


def emulate(options, binaries, arguments):
    """Runs the binaries in turn; returns the names of those that failed."""
    bzimage = (options.kernel or kernel()).read_bytes()
    image, parameters = boot_image(bzimage, initial_files(binaries, arguments, options.env), options.memory)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="run-") as folder:
        pathlib.Path(folder, "image").write_bytes(image)
        pathlib.Path(folder, "display").write_bytes(b"\x55\xaa\x01".ljust(512, b"\0"))  # a ROM that nobody calls
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
                fail(f"{running or 'the kernel'} is not done after {timeout} seconds (--timeout)")
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
    fail(f"the machine ended before {running or 'its kernel'} did:\n{machine.report()}")


def main():
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="%(prog)s [options] [-- arguments of what runs]",
    )
    several = {"action": "append", "default": []}
    what = parser.add_argument_group("what to run (options with * may be repeated)")
    what.add_argument("-p", "--package", metavar="CRATE", help="build and run the tests of this crate, in release mode")
    what.add_argument("--lib", action="store_true", help="only its unit tests and what else is named")
    what.add_argument("--test", **several, metavar="NAME", help="* only tests/NAME.rs and what else is named")
    what.add_argument("--example", **several, metavar="NAME", help="* examples/NAME.rs, which no test run includes")
    what.add_argument("--features", help="features of the crate to build with, as for cargo")
    what.add_argument("--binary", **several, type=pathlib.Path, metavar="PATH", help="* a static executable")
    what.add_argument("--env", **several, metavar="NAME=VALUE", help="* an environment variable for what runs")
    machine = parser.add_argument_group("the machine")
    machine.add_argument("--model", default="corei7_icelake_u", help="processor (default: %(default)s)")
    machine.add_argument("--memory", type=int, default=1024, metavar="MB", help="memory (default: %(default)s)")
    machine.add_argument("--timeout", type=float, metavar="SECONDS", help="give up when boot or binary takes longer")
    machine.add_argument("--kernel", type=pathlib.Path, metavar="PATH", help="a bzImage to use instead of Debian's")
    machine.add_argument("--build-bochs", action="store_true", help="build a faster Bochs, used from then on")
    options = parser.parse_args(sys.argv[1:split])
    if not (options.package or options.binary or options.build_bochs):
        parser.error("name a crate with -p or an executable with --binary")

    CACHE.mkdir(parents=True, exist_ok=True)
    if options.build_bochs:
        build_bochs()
    elif not BOCHS.exists():
        need(shutil.which("bochs"), "bochs", "bochs bochs-term` or build a faster one with `emulate.py --build-bochs")
        plugins = pathlib.Path("/usr/lib").glob("*/bochs/plugins/libbx_term_gui.so")
        need(list(plugins), "the terminal display of Bochs", "bochs-term")
    need(is_static(BUSYBOX), "a static busybox", "busybox-static")
    binaries = [(path.name, path) for path in options.binary] + (build(options) if options.package else [])
    if not binaries:
        return
    for _, path in binaries:
        if not is_static(path):
            fail(f"{path} is no static executable; build it with RUSTFLAGS='-C target-feature=+crt-static'")
    failed = emulate(options, binaries, sys.argv[split + 1 :])
    if failed:
        fail(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
