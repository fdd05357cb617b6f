//! Activation tables: `act_info.json` lists the function sets, and each set has a profile with its
//! tables in two binary members (neff 2.9).

use crate::object::object;
use crate::{Name, Table};
use serde_json::{Number, Value};

object! {
    /// All activation function sets of a subgraph.
    #[derive(Default)]
    pub struct ActInfo {
        /// The keys of a set that name members.
        pub pwp_file_keys: Vec<Name> = "pwp_file_keys",
        /// The sets.
        pub act_func_sets: Vec<ActivationSet> = "act_func_sets",
    }
}

object! {
    /// One activation function set.
    #[derive(Default)]
    pub struct ActivationSet {
        /// Its name.
        pub name: Name = "name",
        /// The member with its buckets.
        pub bkt_bin: Option<Name> = "bkt_bin",
        /// The member with its controls.
        pub ctrl_bin: Option<Name> = "ctrl_bin",
        /// The member with its profile.
        pub profile_json: Option<Name> = "profile_json",
        /// The functions in it, each with its number of points.
        pub act: Table<Number> = "act",
    }
}

impl ActivationSet {
    /// The members it names, by key.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &Name)> {
        let files = [
            ("bkt_bin", &self.bkt_bin),
            ("ctrl_bin", &self.ctrl_bin),
            ("profile_json", &self.profile_json),
        ];
        files
            .into_iter()
            .filter_map(|(key, file)| Some((key, file.as_ref()?)))
    }
}

object! {
    /// The profile of an activation function set.
    #[derive(Default)]
    pub struct ActivationProfile {
        /// The member with the buckets.
        pub bkt_bin: Option<Name> = "bkt_bin",
        /// The member with the controls.
        pub ctl_bin: Option<Name> = "ctl_bin",
        /// What each function reads from them; not documented further.
        pub profile_meta_data: Vec<Value> = "profile_meta_data",
    }
}
