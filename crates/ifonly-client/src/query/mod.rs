//! The user's input: the profile, a template for it, the wish list, and its options.

pub mod profile;
pub(crate) mod template;
pub mod wish_list;
pub mod wish_options;
