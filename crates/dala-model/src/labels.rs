//! Names for what networks tell apart.

/// The names of ImageNet's 1000 classes, in the order of a network's outputs.
pub fn imagenet_classes() -> impl Iterator<Item = &'static str> {
    include_str!("../data/imagenet_classes.txt").lines()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_name_for_each_class() {
        let names: Vec<&str> = imagenet_classes().collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| !name.is_empty() && name.trim() == *name));
        assert_eq!((names[285], names[872], names[967]), ("Egyptian cat", "tripod", "espresso"));
    }
}
