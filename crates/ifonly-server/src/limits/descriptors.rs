//! File descriptors: every connection takes one. A process without a free one can accept no client,
//! open no file and reach no peer.

/// Descriptors that are kept free of client connections: for files, stores, shards and peers.
const RESERVED: u64 = 256;

/// Raises the soft limit to the hard limit. Returns the limit in force, if it is known.
pub(crate) fn raise_limit() -> Option<u64> {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        if raised.is_ok() { maximum } else { current }
    }
    #[cfg(not(unix))]
    None
}

/// Raises the limit of file descriptors. Returns the number of client connections that fit, at
/// most `wanted`.
pub(crate) fn fitting_connections(wanted: usize) -> usize {
    let Some(limit) = raise_limit() else { return wanted };
    let connections = fitting(wanted, limit);
    if connections < wanted {
        tracing::warn!(
            limit,
            connections,
            wanted,
            "too few file descriptors for limits.connections; raise the limit (LimitNOFILE, ulimit -n)"
        );
    }
    connections
}

fn fitting(wanted: usize, limit: u64) -> usize {
    // With very few descriptors, clients get half of them.
    let fit = limit.saturating_sub(RESERVED).max(limit / 2).max(1);
    wanted.min(usize::try_from(fit).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_everything_else() {
        for (wanted, limit, connections) in [
            (1024, 1 << 20, 1024),
            (1024, 1280, 1024),
            (1024, 1024, 768),
            (1024, 300, 150),
            (100, 1024, 100),
            (8, 1, 1),
        ] {
            assert_eq!(fitting(wanted, limit), connections, "{limit} descriptors");
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_soft_limit_is_raised_to_the_hard_limit() {
        use rustix::process::{Resource, getrlimit};
        assert_eq!(raise_limit(), getrlimit(Resource::Nofile).maximum);
        assert_eq!(getrlimit(Resource::Nofile).current, getrlimit(Resource::Nofile).maximum);
    }
}
