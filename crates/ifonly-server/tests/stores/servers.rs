//! Redis and PostgreSQL as child processes of a test, each in a temporary folder.

use ifonly_server::auth::ledger::LedgerConfig;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A store that a test can stop, restart and damage.
pub trait TestStore {
    /// The configuration of a ledger in this store.
    fn config(&self) -> LedgerConfig;
    /// The same through a proxy on this port.
    fn config_via_port(&self, port: u16) -> LedgerConfig;
    /// The path of its Unix socket.
    fn socket(&self) -> PathBuf;
    /// Kills the process.
    fn kill(&mut self);
    /// Starts the process with the data on disk; waits until it answers.
    fn restart(&mut self);
    /// Deletes all data while the store runs.
    fn clear(&self);
    /// Sets the count of a line in the ledger of this name.
    fn set_count(&self, ledger: &str, line: &str, count: u64);
}

/// Waits for a condition that another process makes true.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("timed out: {what}");
}

/// A port that is free at the moment.
pub fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn program(variable: &str) -> PathBuf {
    std::env::var_os(variable)
        .unwrap_or_else(|| panic!("set {variable} to the path of the program; see .ci/run stores"))
        .into()
}

pub struct Redis {
    folder: TempDir,
    options: Vec<String>,
    child: Option<Child>,
}

impl Redis {
    /// A Redis that flushes every write.
    pub fn start() -> Redis {
        Redis::with(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    pub fn with(options: &[&str]) -> Redis {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mut redis = Redis { folder: tempfile::tempdir().unwrap(), options, child: None };
        redis.restart();
        redis
    }

    /// The reply to a command whose words are separated by tabs.
    fn command(&self, command: &str) -> Option<String> {
        let mut stream = UnixStream::connect(self.socket()).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
        let words: Vec<&str> = command.split('\t').collect();
        let parts: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        stream.write_all(format!("*{}\r\n{parts}", words.len()).as_bytes()).ok()?;
        let mut reply = [0; 512];
        let length = stream.read(&mut reply).ok()?;
        Some(String::from_utf8_lossy(&reply[..length]).into_owned())
    }
}

impl TestStore for Redis {
    fn config(&self) -> LedgerConfig {
        LedgerConfig::new(&format!("redis+unix://{}", self.socket().display()))
    }

    fn config_via_port(&self, port: u16) -> LedgerConfig {
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

    fn restart(&mut self) {
        let mut command = Command::new(program("IFONLY_TEST_REDIS"));
        command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(self.socket());
        command.arg("--dir").arg(self.folder.path()).args(&self.options);
        self.child = Some(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
        wait_until("Redis answers", || self.command("PING").is_some_and(|reply| reply.starts_with("+PONG")));
    }

    fn clear(&self) {
        assert_eq!(self.command("FLUSHALL").as_deref(), Some("+OK\r\n"));
    }

    fn set_count(&self, ledger: &str, line: &str, count: u64) {
        assert_eq!(self.command(&format!("HSET\tifonly:ledger:{ledger}\t{line}\t{count}")).as_deref(), Some(":0\r\n"));
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
    /// User and group of the processes: PostgreSQL refuses to run as root.
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

    /// Creates the database without starting it.
    pub fn new() -> Postgres {
        let folder = tempfile::tempdir().unwrap();
        let id = |option: &str, user: &[&str]| -> u32 {
            let output = Command::new("id").arg(option).args(user).output().unwrap().stdout;
            String::from_utf8_lossy(&output).trim().parse().unwrap()
        };
        let owner = (id("-u", &[]) == 0).then(|| (id("-u", &["postgres"]), id("-g", &["postgres"])));
        if let Some((user, group)) = owner {
            std::os::unix::fs::chown(folder.path(), Some(user), Some(group)).unwrap();
        }
        let postgres = Postgres { folder, options: vec![], owner, child: None };
        let mut initdb = postgres.command("initdb");
        initdb.args(["--no-sync", "--auth=trust", "--username=ifonly", "--encoding=UTF8", "-D"]).arg(postgres.data());
        assert!(initdb.stdout(Stdio::null()).status().unwrap().success());
        postgres
    }

    pub fn run(mut self, options: &[&str]) -> Postgres {
        self.options = options.iter().map(|option| (*option).to_owned()).collect();
        self.restart();
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

    /// A program of PostgreSQL, run as the owner.
    fn command(&self, name: &str) -> Command {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(program("IFONLY_TEST_POSTGRES").join(name));
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// The port, which is also part of the name of the socket.
    fn port(&self) -> &str {
        let index = self.options.iter().position(|option| option == "-p").map(|index| index + 1);
        index.and_then(|index| self.options.get(index)).map_or("5432", String::as_str)
    }

    /// The output of a statement, or `None` if it fails.
    pub fn query(&self, statement: &str) -> Option<String> {
        let mut psql = self.command("psql");
        psql.arg("-h").arg(self.folder.path()).args([
            "-p",
            self.port(),
            "-U",
            "ifonly",
            "-d",
            "postgres",
            "-Atqc",
            statement,
        ]);
        let output = psql.stderr(Stdio::null()).output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

impl TestStore for Postgres {
    fn config(&self) -> LedgerConfig {
        let folder = self.folder.path().display().to_string().replace('/', "%2F");
        LedgerConfig::new(&format!("postgres://ifonly@{folder}/postgres"))
    }

    fn config_via_port(&self, port: u16) -> LedgerConfig {
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
        // Without this, the worker processes would finish their statements.
        let _ = Command::new("kill").arg("-9").args(children.split_whitespace()).stderr(Stdio::null()).status();
        child.wait().unwrap();
        wait_until("PostgreSQL ends", || children.split_whitespace().all(|id| !Path::new("/proc").join(id).exists()));
    }

    fn restart(&mut self) {
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(self.folder.path()).args(["-h", ""]).args(&self.options);
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        self.child = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        wait_until("PostgreSQL answers", || self.query("SELECT 1").is_some());
    }

    fn clear(&self) {
        self.query("TRUNCATE ifonly_ledger, ifonly_spent").unwrap();
    }

    fn set_count(&self, ledger: &str, line: &str, count: u64) {
        let changed = format!(
            "WITH changed AS (UPDATE ifonly_spent SET spent = {count} WHERE ledger = '{ledger}' AND line = '{line}' RETURNING 1) \
             SELECT count(*) FROM changed"
        );
        assert_eq!(self.query(&changed).as_deref(), Some("1"));
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}
