//! The person's side of the command line (in work).
