//! The stores as processes of a test's own, each in a folder that goes away with it.

use ifonly_server::auth::ledger::LedgerConfig;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A place for a ledger.
pub trait Stand {
    /// How a server's configuration names it.
    fn config(&self) -> LedgerConfig;
    /// The same by way of a proxy on this port.
    fn by_port(&self, port: u16) -> LedgerConfig;
    /// Its socket.
    fn socket(&self) -> PathBuf;
    /// Ends it without a warning.
    fn kill(&mut self);
    /// Starts it again with what it has on disk; waits until it answers.
    fn revive(&mut self);
    /// Takes everything away from it while it runs.
    fn empty(&self);
    /// Sets the count of a line in the ledger of this name.
    fn set(&self, ledger: &str, line: &str, count: u64);
}

/// Waits for something that another process will do.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} did not come about");
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn program(variable: &str) -> PathBuf {
    std::env::var_os(variable).unwrap_or_else(|| panic!("{variable} must name the program; see .ci/run stores")).into()
}

pub struct Redis {
    folder: TempDir,
    options: Vec<String>,
    child: Option<Child>,
}

impl Redis {
    /// One that flushes every write.
    pub fn start() -> Redis {
        Redis::with(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    pub fn with(options: &[&str]) -> Redis {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mut redis = Redis { folder: tempfile::tempdir().unwrap(), options, child: None };
        redis.revive();
        redis
    }

    /// What it says to a command without spaces in its words.
    fn ask(&self, command: &str) -> Option<String> {
        let mut line = UnixStream::connect(self.socket()).ok()?;
        line.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
        let words: Vec<&str> = command.split('\t').collect();
        let parts: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        line.write_all(format!("*{}\r\n{parts}", words.len()).as_bytes()).ok()?;
        let mut reply = [0; 512];
        let length = line.read(&mut reply).ok()?;
        Some(String::from_utf8_lossy(&reply[..length]).into_owned())
    }
}

impl Stand for Redis {
    fn config(&self) -> LedgerConfig {
        LedgerConfig::new(&format!("redis+unix://{}", self.socket().display()))
    }

    fn by_port(&self, port: u16) -> LedgerConfig {
        LedgerConfig::new(&format!("valkey://127.0.0.1:{port}/0"))
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    fn revive(&mut self) {
        let mut command = Command::new(program("IFONLY_TEST_REDIS"));
        command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(self.socket());
        command.arg("--dir").arg(self.folder.path()).args(&self.options);
        self.child = Some(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
        until("a Redis", || self.ask("PING").is_some_and(|reply| reply.starts_with("+PONG")));
    }

    fn empty(&self) {
        assert_eq!(self.ask("FLUSHALL").as_deref(), Some("+OK\r\n"));
    }

    fn set(&self, ledger: &str, line: &str, count: u64) {
        assert_eq!(self.ask(&format!("HSET\tifonly:ledger:{ledger}\t{line}\t{count}")).as_deref(), Some(":0\r\n"));
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

pub struct Postgres {
    folder: TempDir,
    options: Vec<String>,
    /// Whose processes these are: a database refuses to be root's.
    owner: Option<(u32, u32)>,
    child: Option<Child>,
}

impl Postgres {
    pub fn start() -> Postgres {
        Postgres::with(&[])
    }

    pub fn with(options: &[&str]) -> Postgres {
        let postgres = Postgres::new();
        postgres.run(options)
    }

    /// Made and not started.
    pub fn new() -> Postgres {
        let folder = tempfile::tempdir().unwrap();
        let number = |option: &str, who: &[&str]| -> u32 {
            let said = Command::new("id").arg(option).args(who).output().unwrap().stdout;
            String::from_utf8_lossy(&said).trim().parse().unwrap()
        };
        let owner = (number("-u", &[]) == 0).then(|| (number("-u", &["postgres"]), number("-g", &["postgres"])));
        if let Some((user, group)) = owner {
            std::os::unix::fs::chown(folder.path(), Some(user), Some(group)).unwrap();
        }
        let postgres = Postgres { folder, options: vec![], owner, child: None };
        let mut making = postgres.command("initdb");
        making.args(["--no-sync", "--auth=trust", "--username=ifonly", "--encoding=UTF8", "-D"]).arg(postgres.data());
        assert!(making.stdout(Stdio::null()).status().unwrap().success());
        postgres
    }

    pub fn run(mut self, options: &[&str]) -> Postgres {
        self.options = options.iter().map(|option| (*option).to_owned()).collect();
        self.revive();
        self
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn owner(&self) -> Option<(u32, u32)> {
        self.owner
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A program of the database's, as its owner.
    fn command(&self, name: &str) -> Command {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(program("IFONLY_TEST_POSTGRES").join(name));
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Its port, by which its socket is named too.
    fn port(&self) -> &str {
        let place = self.options.iter().position(|option| option == "-p").map(|place| place + 1);
        place.and_then(|place| self.options.get(place)).map_or("5432", String::as_str)
    }

    pub fn says(&self, statement: &str) -> Option<String> {
        let mut asking = self.command("psql");
        asking.arg("-h").arg(self.folder.path()).args([
            "-p",
            self.port(),
            "-U",
            "ifonly",
            "-d",
            "postgres",
            "-Atqc",
            statement,
        ]);
        let said = asking.stderr(Stdio::null()).output().unwrap();
        said.status.success().then(|| String::from_utf8_lossy(&said.stdout).trim().to_owned())
    }
}

impl Stand for Postgres {
    fn config(&self) -> LedgerConfig {
        let folder = self.folder.path().display().to_string().replace('/', "%2F");
        LedgerConfig::new(&format!("postgres://ifonly@{folder}/postgres"))
    }

    fn by_port(&self, port: u16) -> LedgerConfig {
        LedgerConfig::new(&format!("postgresql://ifonly@127.0.0.1:{port}/postgres"))
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join(format!(".s.PGSQL.{}", self.port()))
    }

    fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let children = std::fs::read_to_string(children).unwrap_or_default();
        child.kill().unwrap();
        // Those that answer would finish what they do.
        let _ = Command::new("kill").arg("-9").args(children.split_whitespace()).stderr(Stdio::null()).status();
        child.wait().unwrap();
        until("the end of a PostgreSQL", || {
            children.split_whitespace().all(|id| !Path::new("/proc").join(id).exists())
        });
    }

    fn revive(&mut self) {
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(self.folder.path()).args(["-h", ""]).args(&self.options);
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        self.child = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        until("a PostgreSQL", || self.says("SELECT 1").is_some());
    }

    fn empty(&self) {
        self.says("TRUNCATE ifonly_ledger, ifonly_spent").unwrap();
    }

    fn set(&self, ledger: &str, line: &str, count: u64) {
        let changed = format!(
            "WITH changed AS (UPDATE ifonly_spent SET spent = {count} WHERE ledger = '{ledger}' AND line = '{line}' RETURNING 1) \
             SELECT count(*) FROM changed"
        );
        assert_eq!(self.says(&changed).as_deref(), Some("1"));
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}
