//! The null backend: records what it is given and never runs it; fails on demand, for tests.
