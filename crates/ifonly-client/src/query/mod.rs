//! What the user gives: the profile, its template, and the wish list.

pub mod profile;
pub(crate) mod template;
pub mod wish_list;
