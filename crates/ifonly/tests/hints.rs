//! Errors of the program come with a hint: the next step, and the flag that helps.

mod support;

use support::{Place, ifonly};

fn refused(arguments: &[&str], code: i32, parts: &[&str]) {
    let output = ifonly(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
}

#[test]
fn connection_errors_have_hints() {
    let place = Place::new(30, 11, &["--levels", "20"]);
    let (secure, plain) = (place.tls_server(1), place.server(1, &[]));
    let (secure_address, plain_address) = (secure.address(), plain.address());
    refused(&["inspect", &secure.url], 5, &["an authority that is not trusted here", "--ca FILE"]);
    refused(&["inspect", &format!("http://{secure_address}")], 5, &["plain HTTP", "write https://"]);
    refused(&["inspect", &format!("https://{plain_address}")], 5, &["does not speak TLS", "https:// address"]);
    // No server listens on port 1.
    refused(&["inspect", "http://127.0.0.1:1"], 5, &["connection refused", "check the address and the port"]);
}

#[test]
fn inspect_and_profile_say_which_servers_were_not_compared() {
    let place = Place::new(30, 14, &["--levels", "20"]);
    let created = support::fine(&["keygen", "-o", &place.path("other.key")]);
    let fingerprint =
        |text: &str| text.split(' ').find(|word| word.matches('-').count() == 7).unwrap()[..39].to_owned();
    let own = fingerprint(&support::fine(&["keygen", "--fingerprint", &place.path("root.key")]));
    let (first, second) = (place.server(1, &[]), place.server(2, &[]));
    let (secure, other) = (place.tls_server(2), place.server_with_key("other.key", 2, &[]));
    assert!(support::fine(&["inspect", &first.url, &second.url]).ends_with(&format!("fingerprint {own}\n")));
    for (command, printed) in [("inspect", "root key: epoch 0"), ("profile", "debt")] {
        // The manifest of the first server is shown, and the exit code says that it is alone.
        for (address, reason) in [
            (Some("http://127.0.0.1:1"), "cannot be reached: connection refused"),
            (Some(secure.url.as_str()), "--ca FILE"),
            (None, "Add its address"),
        ] {
            let arguments: Vec<&str> = [command, first.url.as_str()].into_iter().chain(address).collect();
            let output = ifonly(&arguments);
            assert!(String::from_utf8_lossy(&output.stdout).contains(printed), "{command} {reason}");
            refused(&arguments, 5, &["were not compared: there is no connection to server 2", reason]);
        }
        let different = ["different root keys", &own, &fingerprint(&created), &other.url, "no query was sent"];
        refused(&[command, &first.url, &other.url], 6, &different);
    }
}

#[test]
fn a_missing_token_and_an_exhausted_budget_have_hints() {
    let place = Place::new(30, 12, &["--levels", "20"]);
    let printed = support::fine(&["keygen", "--token", "me", "--searches", "1"]);
    let token = printed.lines().next().unwrap().rsplit(' ').next().unwrap().to_owned();
    std::fs::write(place.path("server.toml"), format!("ledger = \"ledger\"\n{printed}")).unwrap();
    let config = place.path("server.toml");
    let servers = [place.server(1, &["--config", &config]), place.server(2, &[])];
    let profile = place.profile(&place.rows[0].0);
    let ask = |token: &[&str], code: i32, parts: &[&str]| {
        let mut arguments = vec!["ask", "--profile", profile.to_str().unwrap()];
        servers.iter().for_each(|server| arguments.extend(["--server", &server.url]));
        arguments.extend(token);
        refused(&arguments, code, parts);
    };
    let how = ["--token [URL=]TOKEN", "--token-file FILE", "IFONLY_TOKEN", "whether the token is still valid"];
    ask(&[], 5, &how);
    ask(&["--token", "another"], 5, &how);
    let good = ["--token", token.as_str()];
    ask(&good, 0, &[]);
    ask(&good, 5, &["no searches left", "ask the operator for more searches", "a retry will not help"]);
}

#[test]
fn addresses_to_listen_on_can_have_host_names() {
    let place = Place::new(30, 13, &["--levels", "20"]);
    let server = place.server(1, &["--listen", "localhost:0"]);
    std::net::TcpStream::connect(server.address()).unwrap();
    let (bundle, key) = (place.path("bundle"), place.path("root.key"));
    let serve = |address: &str, part: &str| {
        refused(&["serve", &bundle, "--index", "1", "--key", &key, "--listen", address], 2, &["--listen", part]);
    };
    serve("7001", "host:port");
    serve(&format!("{}.example:7001", "x".repeat(64)), "cannot be looked up");
}
