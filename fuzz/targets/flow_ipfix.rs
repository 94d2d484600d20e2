//! Any bytes are messages of IPFIX or have mistakes in the file; what is read can be summed, and has limits.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_flow::choice::Choice;
use quaff_flow::export::{IPFIX_HEADER_BYTES, IpfixReader};
use quaff_flow::summary::{By, Summary, SummaryPlan};

fuzz_target!(|bytes: &[u8]| {
    let plan = SummaryPlan {
        by: By::SINGLE.to_vec(),
        cell_ns: 1_000_000,
        intervals_max: 100,
        groups_max: 50,
        cells_max: 1000,
        choice: Choice::default(),
    };
    let (mut reader, mut summary, mut rest) = (IpfixReader::default(), Summary::new(plan), bytes);
    let mut records = 0;
    while let Some(header) = rest.first_chunk::<IPFIX_HEADER_BYTES>() {
        let Ok(length) = reader.message_bytes(header) else { break };
        let Some((message, after)) = rest.split_at_checked(length) else { break };
        rest = after;
        match reader.read(message) {
            Ok(batches) => {
                for batch in batches {
                    summary.lack(&batch.lacking);
                    batch.records.iter().for_each(|record| summary.add(record));
                    records += batch.records.len() as u64;
                }
            }
            Err(error) => assert!(error.at <= reader.position()),
        }
    }
    assert_eq!(summary.total().0.records, records);
    assert_eq!(reader.finish().found.records, records);
});
