//! Everything that reads what others wrote.

mod call;
mod command;
mod expression;
mod facts;
mod infer;
mod model;
mod picture;
mod pipeline;
mod plan;
mod recording;

use crate::Target;

/// All targets.
pub const NAMES: [&str; 11] = [
    "expression",
    "chain",
    "toml",
    "command",
    "params",
    "model",
    "picture",
    "recording",
    "infer_json",
    "infer_proto",
    "compressed",
];

/// The target of that name.
pub fn by_name(name: &str) -> Option<Box<dyn Target>> {
    Some(match name {
        "expression" => Box::new(expression::Expression),
        "chain" => Box::new(pipeline::Chain::default()),
        "toml" => Box::new(pipeline::Toml::default()),
        "command" => Box::new(command::Command::new()),
        "params" => Box::new(call::Params::default()),
        "model" => Box::new(model::Model::default()),
        "picture" => Box::new(picture::PictureFile),
        "recording" => Box::new(recording::Recording),
        "infer_json" => Box::new(infer::InferJson::default()),
        "infer_proto" => Box::new(infer::InferProto::default()),
        "compressed" => Box::new(infer::Compressed),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_targets_have_the_name_they_are_found_by_and_accept_a_seed() {
        for name in NAMES {
            let mut target = by_name(name).unwrap();
            assert_eq!(target.name(), name);
            let accepted = target.seeds().iter().any(|seed| {
                let mut progress = crate::Progress::new(target.stages());
                target.run(seed, &mut progress);
                progress.is_accepted()
            });
            assert!(accepted, "{name} accepts none of its seeds");
        }
        assert!(by_name("no such target").is_none());
    }
}
