//! What classes are called.

/// The names of ImageNet's 1000 classes, each once, in the order of a network's outputs.
pub fn imagenet_classes() -> impl Iterator<Item = &'static str> {
    include_str!("../data/imagenet_classes.txt").lines()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_1000() {
        let names: Vec<&str> = imagenet_classes().collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| !name.is_empty() && name.trim() == *name));
        assert_eq!((names[0], names[285], names[999]), ("tench", "Egyptian cat", "toilet tissue"));
    }
}
