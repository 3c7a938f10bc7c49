//! Record fetch by symmetric PIR (SPIR).
//!
//! The computation is over GF(2^8), for N servers, threshold T, S silent and B lying servers.
//! Records are cut into L = N − T − S − 2B stripes. For stripe s of record m, server n receives
//! `Σ_{j<T} α_n^j·Z_{m,s,j} + α_n^{T+s}·1[m = θ]` with uniform Z. Its answer is the inner product
//! with all stripes plus the pads `Σ_{j<T} α_n^j·P_j`. The answers are values of a polynomial: its
//! coefficients from T on are the stripes of record θ, and the lower ones are uniformly random. The
//! rate is L/N, any T servers see uniform bytes, and the user learns one record.
//!
//! T + 1 servers suffice without silent and lying servers. Then the shares are XOR shares over
//! GF(2): servers 1 to T receive random subsets of the rows, and server T + 1 their sum with bit θ
//! flipped. Each server receives M bits instead of M bytes.
//!
//! Without silent and lying servers, a fetch asks the number of servers that needs the fewest bytes
//! by rows and record length. Short records need T + 1 servers, long records more stripes.

use crate::aont::OVERHEAD;
use crate::decode::{DecodeError, FieldArithmetic, select_consistent};
use crate::gf256::Gf256;
use crate::keys::{Purpose, TranscriptKeys};
use crate::params::Params;
use crate::random::RandomSource;
use zeroize::Zeroize;

/// The sizes of a record fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFetch {
    rows: usize,
    encoded_length: usize,
    /// The servers that are asked: servers 1 to this number.
    responders: usize,
    threshold: usize,
    lying: usize,
    stripes: usize,
}

impl RecordFetch {
    /// Sizes for `servers` servers and records of `record_length` bytes before encoding.
    pub fn new(params: &Params, servers: usize, record_length: usize) -> RecordFetch {
        let redundant = params.silent + 2 * params.lying;
        let asking = |responders: usize| RecordFetch {
            rows: params.rows,
            encoded_length: record_length + OVERHEAD,
            responders,
            threshold: params.threshold,
            lying: params.lying,
            // Decoding a phase needs κ + 1 > T servers beside the silent and lying ones, so at
            // least one stripe is left.
            stripes: responders.saturating_sub(params.threshold + redundant).max(1),
        };
        let all = asking(servers);
        if redundant > 0 {
            return all;
        }
        (params.threshold + 1..servers).map(asking).chain([all]).min_by_key(RecordFetch::payload_bytes).unwrap_or(all)
    }

    /// Bytes of all payloads and answers of a fetch.
    fn payload_bytes(&self) -> u64 {
        self.responders as u64 * (self.query_length() as u64 + self.stripe_length() as u64)
    }

    /// The number of servers that are asked: servers 1 to this number.
    pub fn responders(&self) -> usize {
        self.responders
    }

    /// Whether the query uses bits instead of bytes, because T + 1 servers are asked.
    pub fn is_binary(&self) -> bool {
        self.responders == self.threshold + 1
    }

    /// Stripes per record.
    pub fn stripes(&self) -> usize {
        self.stripes
    }

    /// Bytes of one stripe, and of one server's answer.
    pub fn stripe_length(&self) -> usize {
        self.encoded_length.div_ceil(self.stripes)
    }

    /// Bytes that each server receives.
    pub(crate) fn query_length(&self) -> usize {
        if self.is_binary() { self.rows.div_ceil(8) } else { self.rows * self.stripes }
    }

    /// The number of records that a client gets per fetch if it breaks the protocol. The pads hide
    /// T of the N answers; every stripe beyond those of one record can belong to another record.
    pub fn cheated_records(&self) -> usize {
        (self.responders - self.threshold.min(self.responders)) / self.stripes
    }

    /// The evaluation point of server n, counted from 0.
    fn point(&self, server: usize) -> u8 {
        server as u8 + 1
    }

    /// One payload per server. `None` makes a dummy query, which looks the same and selects no row.
    pub fn queries(&self, row: Option<usize>, random: &mut (impl RandomSource + ?Sized)) -> Vec<Vec<u8>> {
        if self.is_binary() {
            return self.subsets(row, random);
        }
        let mut queries = vec![Vec::with_capacity(self.query_length()); self.responders];
        let mut noise = vec![0; self.threshold];
        for entry_index in 0..self.rows * self.stripes {
            random.fill(&mut noise);
            let wanted = row == Some(entry_index / self.stripes);
            for (server, query) in queries.iter_mut().enumerate() {
                query.push(self.entry(server, &noise, wanted.then_some(entry_index % self.stripes)));
            }
        }
        noise.zeroize();
        queries
    }

    /// T random subsets and their sum with the bit of the wanted row flipped.
    fn subsets(&self, row: Option<usize>, random: &mut (impl RandomSource + ?Sized)) -> Vec<Vec<u8>> {
        let mut sum = vec![0; self.query_length()];
        let mut subsets = Vec::with_capacity(self.responders);
        for _ in 0..self.threshold {
            let mut subset = vec![0; self.query_length()];
            random.fill(&mut subset);
            // Bits after the last row are zero, so that every subset has one encoding.
            if let (Some(last), spare @ 1..) = (subset.last_mut(), self.rows % 8) {
                *last &= (1 << spare) - 1;
            }
            xor_into(&mut sum, &subset);
            subsets.push(subset);
        }
        if let Some(row) = row {
            sum[row / 8] ^= 1 << (row % 8);
        }
        subsets.push(sum);
        subsets
    }

    /// `Σ_j α^j·noise_j`, plus `α^{T+s}` where stripe s is wanted.
    fn entry(&self, server: usize, noise: &[u8], stripe: Option<usize>) -> u8 {
        let mut power = 1;
        let mut entry = 0;
        for &z in noise {
            entry ^= Gf256.mul(power, z);
            power = Gf256.mul(power, self.point(server));
        }
        stripe.map_or(entry, |stripe| (0..stripe).fold(power, |power, _| Gf256.mul(power, self.point(server))) ^ entry)
    }

    /// Whether the bytes can be a payload of [`RecordFetch::queries`].
    pub(crate) fn is_query(&self, payload: &[u8]) -> bool {
        let spare = self.rows % 8;
        let padded = !self.is_binary() || spare == 0 || payload.last().is_some_and(|last| last >> spare == 0);
        payload.len() == self.query_length() && padded
    }

    /// The factor of a stripe in a valid payload.
    pub(crate) fn factor(&self, payload: &[u8], position: usize, stripe: usize) -> u8 {
        if self.is_binary() {
            payload[position / 8] >> (position % 8) & 1
        } else {
            payload[position * self.stripes + stripe]
        }
    }

    /// The inner product of a payload with the encoded records (`record(i)` is at position i),
    /// without pads. A short last stripe is filled with zeros. This is the slow reference
    /// implementation.
    pub(crate) fn inner_product<'a>(&self, payload: &[u8], record: impl Fn(usize) -> &'a [u8]) -> Vec<u8> {
        let mut sum = vec![0; self.stripe_length()];
        for position in 0..self.rows {
            for (stripe, bytes) in record(position).chunks(self.stripe_length()).enumerate() {
                let factor = self.factor(payload, position, stripe);
                sum.iter_mut().zip(bytes).for_each(|(sum, &byte)| *sum ^= Gf256.mul(factor, byte));
            }
        }
        sum
    }

    /// Adds the pads of server n, counted from 0, to its inner product.
    pub fn pad(&self, server: usize, keys: &TranscriptKeys, product: &mut [u8]) {
        let mut power = 1;
        for j in 0..self.threshold {
            // With XOR shares, server j + 1 ≤ T adds P_j, and server T + 1 their sum.
            let factor = if !self.is_binary() { power } else { u8::from(server == j || server == self.threshold) };
            if factor != 0 {
                let mut pad = vec![0; product.len()];
                keys.stream(Purpose::RecordPad { j: j as u16 }).fill(0, &mut pad);
                product.iter_mut().zip(pad).for_each(|(byte, pad)| *byte ^= Gf256.mul(factor, pad));
            }
            power = Gf256.mul(power, self.point(server));
        }
    }

    /// The encoded record, and the lying servers counted from 1.
    pub fn decode(
        &self,
        answers: &[Option<Vec<u8>>],
        random: &mut dyn RandomSource,
    ) -> Result<(Vec<u8>, Vec<usize>), DecodeError> {
        let points: Vec<u8> = (0..self.responders).map(|server| self.point(server)).collect();
        let degree = self.threshold + self.stripes - 1;
        let agreed = select_consistent(&Gf256, &points, degree, self.lying, answers, random)?;
        if let Some((server, answer)) = answers
            .iter()
            .enumerate()
            .find_map(|(n, a)| Some((n, a.as_ref()?)))
            .filter(|(_, a)| a.len() != self.stripe_length())
        {
            return Err(DecodeError::Length { server: server + 1, have: answer.len(), need: self.stripe_length() });
        }
        let mut encoded = Vec::with_capacity(self.stripe_length() * self.stripes);
        if self.is_binary() {
            encoded.resize(self.stripe_length(), 0);
            answers.iter().flatten().for_each(|answer| xor_into(&mut encoded, answer));
        } else {
            for stripe in 0..self.stripes {
                encoded.extend(agreed.coefficient(&Gf256, self.threshold + stripe));
            }
        }
        encoded.truncate(self.encoded_length);
        Ok((encoded, agreed.lying_servers))
    }
}

fn xor_into(sum: &mut [u8], bytes: &[u8]) {
    sum.iter_mut().zip(bytes).for_each(|(sum, byte)| *sum ^= byte);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aont;
    use crate::keys::RootKey;
    use crate::random::{ExhaustiveRandom, SeededRandom};

    fn fetch(rows: usize, threshold: usize, silent: usize, lying: usize, servers: usize, length: usize) -> RecordFetch {
        let params = Params { threshold, silent, lying, ..Params::new(vec![1], rows) };
        RecordFetch::new(&params, servers, length)
    }

    fn stored(fetch: &RecordFetch, length: usize) -> Vec<Vec<u8>> {
        (0..fetch.rows).map(|row| aont::encode(&vec![row as u8; length], &[row as u8 + 1; 16])).collect()
    }

    #[test]
    fn every_record_comes_back_with_silent_and_lying_servers() {
        let mut random = SeededRandom::new(9);
        let keys = RootKey::new(0, [1; 32]).transcript(&[2; 32]);
        for (threshold, silent, lying, servers) in [
            (1, 0, 0, 2),
            (1, 0, 0, 3),
            (1, 0, 0, 4),
            (2, 0, 0, 3),
            (2, 0, 0, 5),
            (1, 1, 0, 3),
            (1, 0, 1, 4),
            (2, 1, 1, 6),
            (2, 1, 1, 8),
        ] {
            for (rows, length) in [(1, 0), (1, 5), (9, 16), (17, 3)] {
                let fetch = fetch(rows, threshold, silent, lying, servers, length);
                let records = stored(&fetch, length);
                for row in 0..rows {
                    let queries = fetch.queries(Some(row), &mut random);
                    assert!(queries.iter().all(|query| fetch.is_query(query)));
                    let mut answers: Vec<Option<Vec<u8>>> = queries
                        .iter()
                        .enumerate()
                        .map(|(server, query)| {
                            let mut answer = fetch.inner_product(query, |i| &records[i]);
                            fetch.pad(server, &keys, &mut answer);
                            Some(answer)
                        })
                        .collect();
                    answers[..silent].fill(None);
                    for answer in answers[silent..silent + lying].iter_mut().flatten() {
                        answer.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1 + random.below(255) as u8));
                    }
                    let (encoded, lying_servers) = fetch.decode(&answers, &mut random).unwrap();
                    assert_eq!(aont::decode(&encoded), Some(vec![row as u8; length]));
                    assert_eq!(lying_servers, (silent + 1..=silent + lying).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn two_servers_each_see_every_subset_equally_often_for_every_record_and_none() {
        // The query has two bytes.
        let fetch = fetch(11, 1, 0, 0, 2, 0);
        for row in [None, Some(0), Some(7), Some(8), Some(10)] {
            let mut counts = [[0; 2048]; 2];
            let mut all = ExhaustiveRandom::default();
            while all.next_run() {
                for (server, query) in fetch.queries(row, &mut all).iter().enumerate() {
                    counts[server][usize::from(query[0]) + 256 * usize::from(query[1])] += 1;
                }
            }
            assert!(counts.iter().flatten().all(|&count| count == 32), "{row:?}");
        }
    }

    #[test]
    fn any_two_of_three_servers_see_every_pair_of_subsets_equally_often() {
        let fetch = fetch(3, 2, 0, 0, 3, 0);
        assert!(fetch.is_binary());
        for row in [None, Some(0), Some(2)] {
            let mut counts = [[0; 64]; 3];
            let mut all = ExhaustiveRandom::default();
            while all.next_run() {
                let queries = fetch.queries(row, &mut all);
                for (pair, (first, second)) in [(0, 1), (0, 2), (1, 2)].into_iter().enumerate() {
                    counts[pair][usize::from(queries[first][0]) + 8 * usize::from(queries[second][0])] += 1;
                }
            }
            assert!(counts.iter().flatten().all(|&count| count == 1024), "{row:?}");
        }
    }

    #[test]
    fn a_fetch_asks_the_servers_that_need_the_fewest_bytes() {
        for (threshold, servers, rows, length, responders) in [
            (1, 3, 500, 22, 2),
            (1, 3, 500, 100_000, 3),
            (1, 5, 500, 22, 2),
            (2, 5, 500, 22, 3),
            (1, 5, 10, 100_000, 5),
            (1, 5, 10, 300, 3),
        ] {
            let chosen = fetch(rows, threshold, 0, 0, servers, length);
            assert_eq!(chosen.responders(), responders, "N = {servers}, M = {rows}, {length} bytes");
            assert_eq!(chosen.is_binary(), responders == threshold + 1);
            assert_eq!(chosen.cheated_records(), 1);
        }
        // Silent and lying servers need every server.
        assert_eq!(fetch(500, 1, 1, 0, 3, 22).responders(), 3);
        assert_eq!(fetch(500, 1, 0, 1, 5, 22).responders(), 5);
    }

    /// Random bytes from a seed, which are recorded.
    struct RecordingRandom(SeededRandom, Vec<u8>);

    impl RandomSource for RecordingRandom {
        fn fill(&mut self, bytes: &mut [u8]) {
            self.0.fill(bytes);
            self.1.extend_from_slice(bytes);
        }
    }

    #[test]
    fn every_entry_of_a_record_query_has_its_own_draws() {
        const LONG: usize = 10_000;
        for (threshold, servers, rows, length) in [
            (1, 2, 1, 0),
            (1, 2, 9, 0),
            (1, 2, 1003, 0),
            (2, 3, 50, 0),
            (3, 6, 1003, 0),
            (1, 3, 100, LONG),
            (2, 5, 50, LONG),
        ] {
            let fetch = fetch(rows, threshold, 0, 0, servers, length);
            for row in [None, Some(0), Some(rows / 2), Some(rows - 1)] {
                let mut random = RecordingRandom(SeededRandom::new(14), vec![]);
                let queries = fetch.queries(row, &mut random);
                let draws = random.1;
                if length == 0 {
                    // Servers 1 to T see the draws, server T + 1 sees their sum with one bit
                    // flipped, and no server sees a bit after the last row.
                    let bytes = rows.div_ceil(8);
                    assert_eq!((queries.len(), draws.len()), (threshold + 1, threshold * bytes));
                    for position in 0..8 * bytes {
                        let bit = |bytes: &[u8]| bytes[position / 8] >> (position % 8) & 1;
                        let mut sum = u8::from(row == Some(position));
                        for (query, draws) in queries.iter().zip(draws.chunks(bytes)) {
                            let drawn = if position < rows { bit(draws) } else { 0 };
                            assert_eq!(bit(query), drawn);
                            sum ^= drawn;
                        }
                        assert_eq!(bit(&queries[threshold]), sum);
                    }
                    continue;
                }
                // Entry e of server n is Σ_j n^j·Z_(e,j), plus n^(T+s) if stripe s is wanted. It
                // uses T draws.
                let entries = rows * fetch.stripes();
                assert_eq!((queries.len(), draws.len()), (servers, entries * threshold));
                for (server, query) in queries.iter().enumerate() {
                    let power = |exponent: usize| (0..exponent).fold(1, |p, _| Gf256.mul(p, server as u8 + 1));
                    for (entry_index, &entry) in query.iter().enumerate() {
                        let noise = (0..threshold)
                            .fold(0, |sum, j| sum ^ Gf256.mul(power(j), draws[entry_index * threshold + j]));
                        let (position, stripe) = (entry_index / fetch.stripes(), entry_index % fetch.stripes());
                        let unit = if row == Some(position) { power(threshold + stripe) } else { 0 };
                        assert_eq!(entry, noise ^ unit);
                    }
                }
            }
        }
    }

    #[test]
    fn any_t_servers_see_uniform_bytes_for_wanted_and_unwanted_rows() {
        // Every entry has its own draws, so single entries determine the joint distribution.
        for (threshold, servers) in [(1, 3), (2, 4), (2, 5)] {
            let fetch = fetch(1, threshold, 0, 0, servers, 0);
            assert_eq!(fetch.responders(), servers);
            for wanted in std::iter::once(None).chain((0..fetch.stripes()).map(Some)) {
                let pairs = (0..servers).flat_map(|first| (0..=first).map(move |second| (first, second)));
                for (first, second) in pairs.filter(|(first, second)| (first == second) == (threshold == 1)) {
                    let mut counts = vec![0u32; 65_536];
                    let mut all = ExhaustiveRandom::default();
                    while all.next_run() {
                        let mut noise = vec![0; threshold];
                        all.fill(&mut noise);
                        let (a, b) = (fetch.entry(first, &noise, wanted), fetch.entry(second, &noise, wanted));
                        counts[usize::from(a) * 256 + usize::from(b)] += 1;
                    }
                    let seen = counts.iter().filter(|&&count| count == 1).count();
                    assert_eq!(seen, 256usize.pow(threshold as u32), "{wanted:?} at {first}, {second}");
                }
            }
        }
    }

    #[test]
    fn beside_the_record_the_user_sees_only_noise() {
        // The pads P_j, j < T, are bytes of the streams of the transcript: server n adds Σ
        // α_n^j·P_j. With XOR shares it adds P_{n−1}, and server T + 1 the sum of all.
        let keys = RootKey::new(0, [1; 32]).transcript(&[2; 32]);
        for (threshold, servers) in [(1, 2), (1, 3), (2, 3), (2, 5)] {
            let fetch = fetch(2, threshold, 0, 0, servers, 40);
            let expected = |server: usize, pads: &[u8]| match (fetch.is_binary(), pads.get(server)) {
                (false, _) => fetch.entry(server, pads, None),
                (true, Some(&pad)) => pad,
                (true, None) => pads.iter().fold(0, |sum, pad| sum ^ pad),
            };
            let streams: Vec<Vec<u8>> = (0..threshold)
                .map(|j| {
                    let mut bytes = vec![0; fetch.stripe_length()];
                    keys.stream(Purpose::RecordPad { j: j as u16 }).fill(0, &mut bytes);
                    bytes
                })
                .collect();
            for server in 0..fetch.responders() {
                let mut padded = vec![0; fetch.stripe_length()];
                fetch.pad(server, &keys, &mut padded);
                for (index, &byte) in padded.iter().enumerate() {
                    let pads: Vec<u8> = streams.iter().map(|stream| stream[index]).collect();
                    assert_eq!(byte, expected(server, &pads));
                }
            }
            // For uniform P_j, each of the 256^T values gives a different vector of answers with
            // the same stripes. So given the record, the answers are uniform.
            let products: Vec<u8> = (0..fetch.responders()).map(|server| 37 * server as u8 + 11).collect();
            let mut seen = std::collections::BTreeSet::new();
            let mut all = ExhaustiveRandom::default();
            while all.next_run() {
                let mut pads = vec![0; threshold];
                all.fill(&mut pads);
                seen.insert(products.iter().enumerate().map(|(n, p)| p ^ expected(n, &pads)).collect::<Vec<u8>>());
            }
            assert_eq!(seen.len(), 256usize.pow(threshold as u32));
        }
    }

    #[test]
    fn one_lying_server_too_many_never_gives_a_record() {
        let mut random = SeededRandom::new(10);
        for (threshold, silent, lying, servers) in
            [(1, 0, 0, 2), (1, 0, 0, 3), (1, 1, 0, 3), (1, 0, 1, 4), (2, 1, 1, 6)]
        {
            let fetch = fetch(5, threshold, silent, lying, servers, 16);
            let records = stored(&fetch, 16);
            let queries = fetch.queries(Some(3), &mut random);
            let mut answers: Vec<Option<Vec<u8>>> =
                queries.iter().map(|query| Some(fetch.inner_product(query, |i| &records[i]))).collect();
            for answer in answers[..=lying].iter_mut().flatten() {
                random.fill(answer);
            }
            let record = fetch.decode(&answers, &mut random).ok().and_then(|(encoded, _)| aont::decode(&encoded));
            assert_eq!(record, None);
        }
    }
}
