//! Test support: CSV files, bundles, server processes, and a proxy that damages responses.
#![allow(dead_code, missing_docs, unreachable_pub)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Pseudorandom numbers from a seed, so that data is equal in every run.
pub struct Seeded(pub u64);

impl Seeded {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

pub const COLUMNS: [&str; 4] = ["age", "income", "debt", "housing"];

/// A row of the CSV: its values and whether it was accepted.
pub type Row = ([String; 4], bool);

pub fn table(rows: usize, seed: u64) -> Vec<Row> {
    let mut random = Seeded(seed);
    (0..rows)
        .map(|_| {
            let (age, income) = (18 + random.below(60), 12_000 + 37 * random.below(2_000));
            let (debt, own) = (random.below(500) as f64 / 10.0, random.below(2) == 1);
            let housing = if own { "own" } else { "rent" };
            let accepted = income as f64 / 1000.0 - debt + if own { 10.0 } else { 0.0 } > 20.0;
            ([age.to_string(), income.to_string(), debt.to_string(), housing.into()], accepted)
        })
        .collect()
}

pub fn write_csv(path: &Path, rows: &[Row]) {
    let mut text = format!("{},decision\n", COLUMNS.join(","));
    for (values, accepted) in rows {
        text += &format!("{},{}\n", values.join(","), if *accepted { "yes" } else { "no" });
    }
    std::fs::write(path, text).unwrap();
}

pub fn ifonly(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ifonly")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs a command that must succeed.
pub fn fine(arguments: &[&str]) -> String {
    let output = ifonly(arguments);
    assert!(output.status.success(), "{arguments:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A temporary directory with the data, bundle, keys and profiles of a test.
pub struct Place {
    pub folder: tempfile::TempDir,
    pub rows: Vec<Row>,
}

impl Place {
    pub fn new(rows: usize, seed: u64, build: &[&str]) -> Place {
        let place = Place { rows: table(rows, seed), ..Place::empty() };
        place.build("bundle", &place.rows, build);
        place
    }

    /// A directory with a root key and a certificate, without data.
    pub fn empty() -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap(), rows: vec![] };
        fine(&["keygen", "-o", &place.path("root.key")]);
        let (certificate, key) = (place.path("cert.pem"), place.path("cert.key"));
        let names = ["localhost".into(), "127.0.0.1".into()];
        ifonly_server::key_file::create_certificate(certificate.as_ref(), key.as_ref(), &names).unwrap();
        place
    }

    pub fn build(&self, name: &str, rows: &[Row], extra: &[&str]) {
        let (data, bundle) = (self.path("data.csv"), self.path(name));
        write_csv(Path::new(&data), rows);
        let mut arguments = vec!["build", &data, "-o", &bundle, "--target", "decision", "--accept", "yes"];
        arguments.extend(extra);
        fine(&arguments);
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    pub fn profile(&self, values: &[String; 4]) -> PathBuf {
        let object: serde_json::Map<String, serde_json::Value> =
            COLUMNS.iter().zip(values).map(|(name, value)| ((*name).to_owned(), value.as_str().into())).collect();
        let path = self.folder.path().join("me.json");
        std::fs::write(&path, serde_json::Value::Object(object).to_string()).unwrap();
        path
    }

    pub fn server(&self, index: usize, extra: &[&str]) -> Server {
        self.server_with_key("root.key", index, extra)
    }

    pub fn server_with_key(&self, key: &str, index: usize, extra: &[&str]) -> Server {
        let (bundle, key, index) = (self.path("bundle"), self.path(key), index.to_string());
        let mut arguments = vec!["serve", &bundle, "--index", &index, "--key", &key, "--log", "warn"];
        arguments.extend(extra);
        Server::start(&arguments)
    }

    pub fn tls_server(&self, index: usize) -> Server {
        let (cert, key) = (self.path("cert.pem"), self.path("cert.key"));
        self.server(index, &["--listen", "127.0.0.1:0", "--cert", &cert, "--cert-key", &key])
    }

    /// Starts one of three servers of a sealed search. They connect to each other through port
    /// reservations, because their own ports are not known before they start.
    pub fn peer_server(&self, index: usize, reservations: &[PortReservation; 3]) -> Server {
        self.peer_server_with(index, reservations, &[])
    }

    pub fn peer_server_with(&self, index: usize, reservations: &[PortReservation; 3], extra: &[&str]) -> Server {
        let (cert, key) = (self.path("cert.pem"), self.path("cert.key"));
        let own = ["--listen", "127.0.0.1:0", "--cert", &cert, "--cert-key", &key];
        let peers = ["--peers-listen", "127.0.0.1:0", "--next", &reservations[index % 3].address];
        let known = ["--next-cert", &cert, "--previous-cert", &cert];
        let mut server = self.server(index, &[&own[..], &peers, &known, extra].concat());
        let mut line = String::new();
        server.lines.read_line(&mut line).unwrap();
        reservations[index - 1].forward_to(line.trim().strip_prefix("peers on ").unwrap_or_else(|| panic!("{line:?}")));
        server
    }
}

/// A port that forwards connections to the last target, and drops them before a target is set.
#[derive(Clone)]
pub struct PortReservation {
    pub address: String,
    target: std::sync::Arc<std::sync::Mutex<Option<String>>>,
}

impl PortReservation {
    pub fn open() -> PortReservation {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let target = std::sync::Arc::new(std::sync::Mutex::new(None::<String>));
        let shared = target.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let target = shared.lock().unwrap().clone();
                let Some(server) = target.and_then(|target| TcpStream::connect(target).ok()) else { continue };
                for (mut from, mut to) in [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)]
                {
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(std::net::Shutdown::Write);
                    });
                }
            }
        });
        PortReservation { address, target }
    }

    pub fn forward_to(&self, address: &str) {
        *self.target.lock().unwrap() = Some(address.into());
    }
}

/// A server process. Dropping it kills the process.
pub struct Server {
    pub process: Child,
    pub url: String,
    pub lines: BufReader<std::process::ChildStdout>,
}

impl Server {
    pub fn start(arguments: &[&str]) -> Server {
        Server::start_logging(arguments, Stdio::inherit())
    }

    /// Starts a server that writes its log to `log`.
    pub fn start_logging(arguments: &[&str], log: Stdio) -> Server {
        let mut process = Command::new(env!("CARGO_BIN_EXE_ifonly"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line:?}")).to_owned();
        Server { process, url, lines }
    }

    pub fn address(&self) -> &str {
        self.url.split_once("://").unwrap().1
    }

    pub fn signal(&self, name: &str) {
        let kill = Command::new("kill").args([name, &self.process.id().to_string()]).status().unwrap();
        assert!(kill.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The complete response to a GET request over plain HTTP.
pub fn get(address: &str, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(120))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Damage to a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// The connection closes after this many bytes.
    Cut(usize),
    /// The lowest bit of this byte flips.
    Flip(usize),
    /// The response stalls after this many bytes; the connection stays open.
    Stall(usize),
}

/// Starts a proxy before a plain HTTP server. It damages the responses of every connection with a
/// POST request; the manifest passes unchanged.
pub fn harmful(server: &str, harm: Harm) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = server.to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(&server).unwrap();
            std::thread::spawn(move || relay(client, server, harm));
        }
    });
    url
}

fn relay(mut client: TcpStream, mut server: TcpStream, harm: Harm) {
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let (posted, order) =
        (std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)), std::sync::atomic::Ordering::SeqCst);
    let shared = posted.clone();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from_client.read(&mut buffer) {
            if buffer[..count].starts_with(b"POST") {
                shared.store(true, order);
            }
            if to_server.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
        let _ = to_server.shutdown(std::net::Shutdown::Write);
    });
    let mut passed = 0;
    let mut buffer = [0; 512];
    while let Ok(count @ 1..) = server.read(&mut buffer) {
        let part = &mut buffer[..count];
        if posted.load(order) {
            match harm {
                Harm::Cut(at) if passed + count > at => {
                    let _ = client.write_all(&part[..at.saturating_sub(passed).min(count)]);
                    let _ = client.shutdown(std::net::Shutdown::Both);
                    return;
                }
                Harm::Stall(at) if passed + count > at => {
                    let _ = client.write_all(&part[..at.saturating_sub(passed).min(count)]);
                    // Waits until the client disconnects.
                    let _ = client.read(&mut [0; 1]);
                    return;
                }
                Harm::Flip(at) if (passed..passed + count).contains(&at) => part[at - passed] ^= 1,
                _ => {}
            }
            passed += count;
        }
        if client.write_all(part).is_err() {
            return;
        }
    }
}

/// Expected levels and costs, computed from the CSV file and the public schema of the manifest
/// only.
pub struct Truth {
    features: Vec<serde_json::Value>,
    exponent: u32,
}

impl Truth {
    pub fn new(manifest: &serde_json::Value) -> Truth {
        let features = manifest["schema"]["features"].as_array().unwrap().clone();
        let names: Vec<&str> = features.iter().map(|feature| feature["name"].as_str().unwrap()).collect();
        assert_eq!(names, COLUMNS);
        Truth { features, exponent: manifest["exponent"].as_u64().unwrap() as u32 }
    }

    pub fn levels(&self, values: &[String; 4]) -> Vec<u64> {
        let level = |(feature, value): (&serde_json::Value, &String)| {
            let kind = &feature["kind"];
            if let Some((min, max, levels)) = numeric(feature) {
                let exact = (value.parse::<f64>().unwrap() - min) / (max - min);
                return (exact * levels).round().clamp(0.0, levels) as u64;
            }
            let words = kind["categories"].as_array().unwrap();
            // The word `mixed` of a group comes after the others.
            let category = words.iter().position(|word| word == value.as_str()).unwrap_or(words.len());
            category as u64 * kind["range"].as_u64().unwrap()
        };
        self.features.iter().zip(values).map(level).collect()
    }

    /// The cost in values between two rows under a scheme with cost tables: for the quantised
    /// values that servers use, and for the exact values.
    pub fn table_cost(&self, own: &[String; 4], row: &[String; 4]) -> (f64, f64) {
        let levels = self.levels(row);
        let mut costs = (0.0, 0.0);
        for (k, feature) in self.features.iter().enumerate() {
            let Some((min, max, steps)) = numeric(feature) else {
                let changed = f64::from(u8::from(own[k] != row[k]));
                costs = (costs.0 + changed, costs.1 + changed);
                continue;
            };
            let share = |value: f64| ((value - own[k].parse::<f64>().unwrap()) / (max - min)).powi(2);
            costs.0 += share(min + levels[k] as f64 / steps * (max - min));
            costs.1 += share(row[k].parse().unwrap());
        }
        costs
    }

    /// The cost between two rows in levels, under a scheme without cost tables.
    pub fn cost(&self, scheme: &str, x: &[u64], y: &[u64]) -> u64 {
        let terms = x.iter().zip(y).map(|(&x, &y)| match scheme {
            "dot" => x * y,
            "lp" | "linear-lp" => x.abs_diff(y).pow(self.exponent),
            _ => x.abs_diff(y).pow(2),
        });
        terms.sum()
    }
}

/// Minimum, maximum and number of levels of a uniform scale.
fn numeric(feature: &serde_json::Value) -> Option<(f64, f64, f64)> {
    let layout = &feature["kind"]["scale"]["layout"];
    Some((layout["min"].as_f64()?, layout["max"].as_f64()?, layout["levels"].as_f64()?))
}
