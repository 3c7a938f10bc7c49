//! The user's input: the profile, a template for it, and the wish list.

pub mod profile;
pub(crate) mod template;
pub mod wish_list;
