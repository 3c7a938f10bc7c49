//! A search has the same result, or the same error, with the portable decoder and with the kernels.

use ifonly_algebra::field::ModulusRule;
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_algebra::row_function::Rows;
use ifonly_core::memory::MemoryServer;
use ifonly_core::params::Params;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::{self, ConstraintKind};
use ifonly_core::search::{Search, SearchError};
use ifonly_core::secret_query::SecretQuery;
use ifonly_scan::decode::KernelInterpolator;

/// Damage to the answers of the first server. Their first 16 bytes are the key-check value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    Nothing,
    Silence,
    /// Elements that are not below q, or are wrong.
    AllOnes,
    Short,
    Padding,
    OneBit,
}

const DAMAGES: [Damage; 6] =
    [Damage::Nothing, Damage::Silence, Damage::AllOnes, Damage::Short, Damage::Padding, Damage::OneBit];

fn damaged(damage: Damage, mut response: Vec<u8>) -> Option<Vec<u8>> {
    match damage {
        Damage::Nothing => {}
        Damage::Silence => return None,
        Damage::AllOnes => response[20..60].fill(0xff),
        Damage::Short => drop(response.pop()),
        Damage::Padding => *response.last_mut()? |= 0x80,
        Damage::OneBit => response[40] ^= 4,
    }
    Some(response)
}

type Found = (Vec<(Option<usize>, String, Vec<u8>)>, Option<usize>, Vec<usize>);

fn run(
    instance: &SchemeInstance,
    servers: &[MemoryServer],
    damage: Damage,
    kernels: bool,
) -> Result<Found, SearchError> {
    let fixed = instance.scheme().constraint != ConstraintKind::None;
    let secret = SecretQuery::new(vec![3, 70, 1]).immutable(vec![fixed, false, false]);
    let search = Search::nearest(instance.clone(), secret, servers[0].header_context(), 3).unwrap();
    let search = if kernels { search.interpolated_by(&KernelInterpolator) } else { search };
    let mut answers = 0;
    let outcome = search.run(&mut SeededRandom::new(5), |server, message| {
        let response = servers[server - 1].respond(message).ok()?;
        // Records are not damaged, because this test is about decoding.
        answers += usize::from(server == 1);
        if server == 1 && answers <= instance.phases() { damaged(damage, response) } else { Some(response) }
    })?;
    let found = outcome.found.iter().map(|f| (f.position, format!("{:?}", f.cost), f.record.clone()));
    Ok((found.collect(), outcome.matching_rows, outcome.lying_servers))
}

#[test]
fn kernels_find_and_reject_the_same_as_the_portable_decoder() {
    let max_levels = vec![7, 100, 1];
    let mut random = SeededRandom::new(4);
    let mut row =
        || max_levels.iter().map(|&max_level| random.below(u64::from(max_level) + 1) as u16).collect::<Vec<u16>>();
    // More than one block of rows, and elements that do not end at a byte boundary.
    let levels: Vec<Vec<u16>> = (0..1027).map(|_| row()).collect();
    let rows = Rows::new(&max_levels, &levels).unwrap();
    let key = RootKey::new(0, [8; 32]);
    let (mut found, mut refused) = (0, 0);
    for scheme in scheme::ALL {
        for (threshold, silent, lying, verified) in
            [(1, 0, 0, false), (2, 0, 0, false), (1, 1, 0, false), (1, 0, 1, false), (1, 0, 0, true)]
        {
            let params = Params {
                threshold,
                silent,
                lying,
                verified,
                weight_limit: 3,
                ..Params::new(max_levels.clone(), rows.iter().len())
            };
            // Not every scheme supports verified answers.
            let Ok(instance) = SchemeInstance::new(scheme, params, ModulusRule::Deployment) else { continue };
            let servers: Vec<MemoryServer> =
                (1..=instance.servers() as u8).map(|n| MemoryServer::new(n, &instance, &key, &rows)).collect();
            for damage in DAMAGES {
                let (plain, fast) = (run(&instance, &servers, damage, false), run(&instance, &servers, damage, true));
                assert_eq!(plain, fast, "{}, T {threshold}, S {silent}, B {lying}, {damage:?}", scheme.name);
                *if plain.is_ok() { &mut found } else { &mut refused } += 1;
            }
        }
    }
    assert!(found > 100 && refused > 100, "{found} found, {refused} refused");
}

#[test]
fn kernels_decode_answers_as_they_arrive_and_again_after_one_is_discarded() {
    let max_levels = vec![7, 100, 1];
    let mut random = SeededRandom::new(6);
    let mut row =
        || max_levels.iter().map(|&max_level| random.below(u64::from(max_level) + 1) as u16).collect::<Vec<u16>>();
    let levels: Vec<Vec<u16>> = (0..1300).map(|_| row()).collect();
    let rows = Rows::new(&max_levels, &levels).unwrap();
    let key = RootKey::new(0, [8; 32]);
    for scheme in scheme::ALL {
        let params = Params { weight_limit: 3, ..Params::new(max_levels.clone(), rows.iter().len()) };
        let instance = SchemeInstance::new(scheme, params, ModulusRule::Deployment).unwrap();
        let servers: Vec<MemoryServer> =
            (1..=instance.servers() as u8).map(|n| MemoryServer::new(n, &instance, &key, &rows)).collect();
        let expected = run(&instance, &servers, Damage::Nothing, false).unwrap();
        let fixed = instance.scheme().constraint != ConstraintKind::None;
        let secret = SecretQuery::new(vec![3, 70, 1]).immutable(vec![fixed, false, false]);
        let search = Search::nearest(instance, secret, servers[0].header_context(), 3).unwrap();
        let (mut search, mut random) = (search.interpolated_by(&KernelInterpolator), SeededRandom::new(5));
        while let Some(outgoing) = search.next(&mut random) {
            let responses: Vec<Vec<u8>> =
                servers.iter().zip(&outgoing.messages).map(|(s, message)| s.respond(message).unwrap()).collect();
            // The damaged answer of the first server is decoded to its end with the others, then
            // sent again.
            search.receive_part(1, &responses[0].iter().map(|byte| byte ^ 1).collect::<Vec<u8>>());
            for chunk in 0..responses[0].len().div_ceil(777) {
                for (server, response) in (2..).zip(&responses[1..]) {
                    search.receive_part(server, response.chunks(777).nth(chunk).unwrap());
                }
            }
            search.forget(1);
            responses[0].chunks(500).for_each(|chunk| search.receive_part(1, chunk));
        }
        let outcome = search.finish().unwrap();
        let found = outcome.found.iter().map(|f| (f.position, format!("{:?}", f.cost), f.record.clone()));
        assert_eq!((found.collect(), outcome.matching_rows, outcome.lying_servers), expected, "{}", scheme.name);
    }
}
