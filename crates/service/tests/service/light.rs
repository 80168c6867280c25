//! Refusals of configs that need features which the service was built without. Each test runs only
//! without its feature: `cargo test -p ferretto-service --no-default-features`.

use ferretto_proto::TraceConfig;

use crate::world::{ConfigBuilder, World};

/// Returns the reason for which the service refuses a config.
fn refusal(change: impl FnOnce(&mut TraceConfig)) -> Option<String> {
    let mut world = World::new();
    let consumer = world.consumer();
    let config = ConfigBuilder::new().source("s").with(change);
    let session = world.enable(consumer, config);
    world.ended(consumer, session)
}

#[test]
#[cfg(not(feature = "regex"))]
fn configs_with_regular_expressions_are_refused_without_the_feature() {
    use ferretto_proto::trace_config::trace_filter::StringFilterPolicy;

    let named = refusal(|config| {
        config.data_sources[0].producer_name_regex_filter = vec![b"a.*".to_vec()];
    });
    assert_eq!(
        named.unwrap(),
        "Invalid regular expression \"a.*\" in producer_name_regex_filter: this service was built without \
         regular expressions (feature \"regex\" of ferretto-service)"
    );
    let redacting = refusal(|config| {
        let filter = config.trace_filter.get_or_insert_default();
        let rules = &mut filter.string_filter_chain.get_or_insert_default().rules;
        rules.push(Default::default());
        rules[0].policy = Some(StringFilterPolicy::SFP_MATCH_BREAK);
        rules[0].regex_pattern = Some(b"secret".to_vec());
    });
    assert_eq!(
        redacting.unwrap(),
        "Invalid regular expression \"secret\" in trace_filter: this service was built without regular \
         expressions (feature \"regex\" of ferretto-service)"
    );
}

#[test]
#[cfg(not(feature = "deflate"))]
fn configs_with_deflate_are_refused_without_the_feature() {
    use ferretto_proto::trace_config::CompressionType;

    let sentence = "This service was built without compression by deflate (feature \"deflate\" of ferretto-service)";
    let older = refusal(|config| {
        config.compression_type = Some(CompressionType::COMPRESSION_TYPE_DEFLATE);
    });
    assert_eq!(older.unwrap(), sentence);
    let newer = refusal(|config| {
        let choice = config.compression.get_or_insert_default();
        choice.deflate = Some(Default::default()).into();
    });
    assert_eq!(newer.unwrap(), sentence);
}

#[test]
#[cfg(not(feature = "priority"))]
fn configs_with_a_priority_are_refused_without_the_feature() {
    use ferretto_proto::priority_boost_config::BoostPolicy;

    let boosted = refusal(|config| {
        let boost = config.priority_boost.get_or_insert_default();
        boost.policy = Some(BoostPolicy::POLICY_SCHED_OTHER);
        boost.priority = Some(5);
    });
    assert_eq!(
        boosted.unwrap(),
        "Invalid priority boost config: this service was built without it (feature \"priority\" of \
         ferretto-service)"
    );
}

#[test]
#[cfg(not(feature = "protovm"))]
fn configs_with_protovm_are_refused_without_the_feature() {
    let folded = refusal(|config| {
        let source = config.data_sources[0].config.get_or_insert_default();
        source.protovm_config = Some(Default::default()).into();
    });
    assert_eq!(
        folded.unwrap(),
        "This service was built without ProtoVM (feature \"protovm\" of ferretto-service)"
    );
}

#[test]
fn all_other_configs_are_accepted() {
    assert_eq!(refusal(|config| config.duration_ms = Some(1000)), None);
}
