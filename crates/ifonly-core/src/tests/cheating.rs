//! What a client that breaks the protocol learns if there are spare servers, and why mask schemes
//! cannot be verified.

use crate::field::{FieldElement, ModulusRule};
use crate::http_api::CHECK_LENGTH;
use crate::keys::RootKey;
use crate::memory::MemoryServer;
use crate::params::Params;
use crate::random::SeededRandom;
use crate::row_function::Rows;
use crate::scheme::instance::{SchemeInstance, SchemeInstanceError};
use crate::transcript::{Message, MessageKind, SearchRef, Ticket, messages};
use crate::{aont, scheme, wire};

const ROWS: [[u16; 2]; 5] = [[3, 1], [0, 2], [4, 4], [1, 0], [2, 3]];

struct World {
    instance: SchemeInstance,
    servers: Vec<MemoryServer>,
}

impl World {
    fn new(name: &str, silent: usize, lying: usize) -> World {
        let rows = Rows::new(&[4, 4], ROWS).unwrap();
        let params = Params { silent, lying, ..Params::new(vec![4, 4], rows.iter().len()) };
        let instance = SchemeInstance::new(scheme::named(name).unwrap(), params, ModulusRule::Deployment).unwrap();
        let key = RootKey::new(1, [3; 32]);
        let server = |index| MemoryServer::new(index, &instance, &key, &rows);
        World { servers: (1..=instance.servers() as u8).map(server).collect(), instance }
    }

    /// Sends any payload to every server, under one transcript.
    fn send(&self, kind: MessageKind, parent: SearchRef, payloads: Vec<Vec<u8>>) -> (SearchRef, Vec<Vec<u8>>) {
        let header = self.servers[0].header_context().header(&self.instance, kind, payloads.len(), parent);
        let sent = messages(&header, payloads, &mut SeededRandom::new(4));
        let answer = |(server, message): (&MemoryServer, &Message)| server.respond(&message.encode()).unwrap();
        let responses: Vec<Vec<u8>> = self.servers.iter().zip(&sent).map(answer).collect();
        let (lead, _) = responses[0].split_at(kind.lead());
        let mut ticket = Ticket::default();
        ticket.iter_mut().zip(&lead[CHECK_LENGTH..]).for_each(|(to, &from)| *to = from);
        let bodies = responses.iter().map(|response| response[kind.lead()..].to_vec()).collect();
        (SearchRef { tau: sent[0].tau(), ticket }, bodies)
    }

    fn table(&self, entry: impl Fn(usize, u16) -> u64) -> Vec<u8> {
        let field = self.instance.field();
        let entries: Vec<FieldElement> = (0..2)
            .flat_map(|k| (0..=4).map(move |level| (k, level)))
            .map(|(k, level)| field.reduce(entry(k, level)))
            .collect();
        wire::pack(field, &entries)
    }
}

#[test]
fn every_spare_server_gives_a_cheating_client_one_more_element_per_row_and_one_more_record() {
    for (silent, lying, elements) in [(0, 0, 1), (1, 0, 2), (0, 1, 3), (1, 1, 4)] {
        let world = World::new("table", silent, lying);
        let (instance, field) = (&world.instance, world.instance.field());
        assert_eq!(instance.cheated_elements(), elements);
        // Server 1 gets a query of zeros, so its answer is the pad. Every other server gets its own
        // table.
        let table = |server: usize| {
            world.table(|k, level| if server == 0 { 0 } else { 7 * server as u64 + u64::from(level) * [1, 10][k] })
        };
        let payloads = (0..instance.servers()).map(table).collect();
        let (parent, answers) = world.send(MessageKind::Phase(0), SearchRef::default(), payloads);
        let answers: Vec<Vec<FieldElement>> =
            answers.iter().map(|bytes| wire::unpack(field, bytes, ROWS.len()).unwrap()).collect();
        let points = instance.points();
        let mut learnt = 0;
        for server in 1..instance.servers() {
            for (position, row) in ROWS.iter().enumerate() {
                let pad = field.mul(answers[0][position], field.inverse(points[0]).unwrap());
                let element = field.sub(answers[server][position], field.mul(points[server], pad));
                assert_eq!(element, field.reduce(14 * server as u64 + u64::from(row[0]) + 10 * u64::from(row[1])));
            }
            learnt += 1;
        }
        assert_eq!(learnt, elements);
        // The same with records: server 1 returns the pad, every other server the requested record
        // plus the pad.
        let fetch = instance.record_fetch(4);
        assert_eq!((fetch.cheated_records(), fetch.stripes()), (elements, 1));
        let payload = |server: usize| {
            let mut payload = vec![0; fetch.query_length()];
            match (server, fetch.is_binary()) {
                (0, _) => {}
                (_, true) => payload[0] = 1 << server,
                (_, false) => payload[server] = 1,
            }
            payload
        };
        let (_, answers) = world.send(MessageKind::Record, parent, (0..instance.servers()).map(payload).collect());
        let records = (1..instance.servers()).filter(|&server| {
            let encoded: Vec<u8> = answers[server].iter().zip(&answers[0]).map(|(a, b)| a ^ b).collect();
            aont::decode(&encoded).is_some_and(|record| crate::memory::levels(&record) == ROWS[server])
        });
        assert_eq!(records.count(), elements, "S = {silent}, B = {lying}");
    }
}

#[test]
fn masks_are_not_verified_because_r_zero_removes_them() {
    for name in ["mask", "linear-mask+"] {
        let params = Params { verified: true, d_min: 3, ..Params::new(vec![4], 2) };
        let scheme = scheme::named(name).unwrap();
        let refused = SchemeInstance::new(scheme, params.clone(), ModulusRule::Deployment).unwrap_err();
        assert_eq!(refused, SchemeInstanceError::MaskNotVerifiable { scheme: scheme.name });
        let plain =
            SchemeInstance::new(scheme, Params { verified: false, ..params.clone() }, ModulusRule::Deployment).unwrap();
        let alphas: Vec<i64> = plain.points().iter().map(|&point| plain.field().signed(point)).collect();
        let read = SchemeInstance::with_field(scheme, params, plain.field().q(), &alphas).unwrap_err();
        assert_eq!(read, SchemeInstanceError::MaskNotVerifiable { scheme: scheme.name });
    }
}
