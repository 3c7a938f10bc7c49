//! The part of RESP, the protocol of Redis and Valkey, that a ledger needs: a command is an array
//! of byte strings, and a reply is a text, a number, nil or an error. Every read and write has a
//! time limit, the TLS handshake included.

use crate::auth::ledger::redis_url::RedisEndpoint;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of a reply. The reply to INFO has a few thousand bytes.
const MAX_REPLY: u64 = 1 << 20;

/// A connection on which commands and replies alternate.
pub(crate) struct RespConnection {
    stream: BufReader<Stream>,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RespReply {
    Text(String),
    Number(i64),
    Nil,
    /// The store did not execute the command.
    Error(String),
}

enum Stream {
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixStream),
}

impl RespConnection {
    /// Connects, with TLS if a configuration is given.
    pub(crate) fn connect(
        endpoint: &RedisEndpoint,
        tls: Option<&Arc<ClientConfig>>,
        timeout: Duration,
    ) -> io::Result<RespConnection> {
        let stream = match endpoint {
            RedisEndpoint::Host { host, port, .. } => {
                let socket = connect(host, *port, timeout)?;
                match tls {
                    None => Stream::Tcp(socket),
                    Some(config) => {
                        let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                        let session = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
                        Stream::Tls(Box::new(StreamOwned::new(session, socket)))
                    }
                }
            }
            #[cfg(unix)]
            RedisEndpoint::Socket(path) => {
                let socket = std::os::unix::net::UnixStream::connect(path)?;
                socket.set_read_timeout(Some(timeout))?;
                socket.set_write_timeout(Some(timeout))?;
                Stream::Unix(socket)
            }
            #[cfg(not(unix))]
            RedisEndpoint::Socket(_) => return Err(ErrorKind::Unsupported.into()),
        };
        Ok(RespConnection { stream: BufReader::new(stream) })
    }

    /// Sends a command and waits for its reply.
    pub(crate) fn command(&mut self, words: &[&[u8]]) -> io::Result<RespReply> {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            command.extend(format!("${}\r\n", word.len()).as_bytes());
            command.extend(*word);
            command.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&command)?;
        self.stream.get_mut().flush()?;
        self.reply()
    }

    /// Whether the connection is usable: the store has neither closed it nor sent unexpected bytes.
    pub(crate) fn is_open(&mut self) -> bool {
        let quiet = |stream: &mut Stream| {
            stream.set_nonblocking(true)?;
            let read = stream.read(&mut [0]);
            stream.set_nonblocking(false)?;
            Ok::<_, io::Error>(read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock))
        };
        self.stream.buffer().is_empty() && quiet(self.stream.get_mut()).unwrap_or(false)
    }

    fn reply(&mut self) -> io::Result<RespReply> {
        let head = self.read_line()?;
        let number = || head.get(1..).and_then(|digits| digits.parse::<i64>().ok()).ok_or_else(invalid_reply);
        match head.as_bytes().first() {
            Some(b'+') => Ok(RespReply::Text(head[1..].into())),
            Some(b'-') => Ok(RespReply::Error(head[1..].into())),
            Some(b':') => Ok(RespReply::Number(number()?)),
            Some(b'$') => match number()? {
                -1 => Ok(RespReply::Nil),
                length if (0..=MAX_REPLY as i64).contains(&length) => {
                    let mut bytes = vec![0; length as usize + 2];
                    self.stream.read_exact(&mut bytes)?;
                    bytes.truncate(length as usize);
                    String::from_utf8(bytes).map(RespReply::Text).map_err(|_| invalid_reply())
                }
                _ => Err(invalid_reply()),
            },
            _ => Err(invalid_reply()),
        }
    }

    /// Reads a line and removes its end.
    fn read_line(&mut self) -> io::Result<String> {
        let mut bytes = vec![];
        (&mut self.stream).take(MAX_REPLY).read_until(b'\n', &mut bytes)?;
        match bytes.strip_suffix(b"\r\n") {
            Some(line) => String::from_utf8(line.into()).map_err(|_| invalid_reply()),
            None if bytes.is_empty() => Err(ErrorKind::UnexpectedEof.into()),
            None => Err(invalid_reply()),
        }
    }
}

/// Connects to the first address of the host that accepts.
fn connect(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the host name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                socket.set_read_timeout(Some(timeout))?;
                socket.set_write_timeout(Some(timeout))?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn invalid_reply() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the reply is not valid RESP; is this a Redis server?")
}

impl Stream {
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            Stream::Tcp(socket) => socket.set_nonblocking(nonblocking),
            Stream::Tls(stream) => stream.sock.set_nonblocking(nonblocking),
            #[cfg(unix)]
            Stream::Unix(socket) => socket.set_nonblocking(nonblocking),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(socket) => socket.read(bytes),
            Stream::Tls(stream) => stream.read(bytes),
            #[cfg(unix)]
            Stream::Unix(socket) => socket.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(socket) => socket.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
            #[cfg(unix)]
            Stream::Unix(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(socket) => socket.flush(),
            Stream::Tls(stream) => stream.flush(),
            #[cfg(unix)]
            Stream::Unix(socket) => socket.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// The parsed reply of a server that sends these bytes.
    fn reply_to_ping(bytes: &'static [u8]) -> io::Result<RespReply> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let endpoint =
            RedisEndpoint::Host { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port(), tls: false };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let (mut socket, _) = listener.accept().unwrap();
                let mut command = [0; 14];
                socket.read_exact(&mut command).unwrap();
                assert_eq!(&command, b"*1\r\n$4\r\nPING\r\n");
                socket.write_all(bytes).unwrap();
            });
            RespConnection::connect(&endpoint, None, Duration::from_secs(60)).unwrap().command(&[b"PING"])
        })
    }

    #[test]
    fn valid_replies_are_parsed_and_other_bytes_are_errors() {
        assert_eq!(reply_to_ping(b"+PONG\r\n").unwrap(), RespReply::Text("PONG".into()));
        assert_eq!(reply_to_ping(b"-OOM no\r\n").unwrap(), RespReply::Error("OOM no".into()));
        assert_eq!(reply_to_ping(b":-2\r\n").unwrap(), RespReply::Number(-2));
        assert_eq!(reply_to_ping(b"$3\r\na\nb\r\n").unwrap(), RespReply::Text("a\nb".into()));
        assert_eq!(reply_to_ping(b"$-1\r\n").unwrap(), RespReply::Nil);
        let wrong: [&[u8]; 9] = [
            b"",
            b"\r\n",
            b":x\r\n",
            b":1",
            b"$9\r\na\r\n",
            b"$99999999999\r\n",
            b"$-2\r\n",
            b"HTTP/1.1 400\r\n",
            b"+\xff\r\n",
        ];
        for wrong in wrong {
            assert!(reply_to_ping(wrong).is_err(), "{}", String::from_utf8_lossy(wrong));
        }
    }
}
