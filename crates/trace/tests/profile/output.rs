//! What is made of samples.
