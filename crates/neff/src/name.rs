//! Names inside JSON members: queue sets, variables, types. A member repeats a few of them a
//! million times, so that equal ones of one member share their memory.

use arcstr::ArcStr;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;

/// A text of a JSON member, cheap to copy and one pointer wide.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(ArcStr);

/// Its hash is seeded and short: a name is looked up at every place where it stands.
type Names = HashSet<Name, foldhash::fast::RandomState>;

thread_local! {
    /// The names of the member that is being read, while [`sharing`] runs.
    static KNOWN: RefCell<Option<Names>> = const { RefCell::new(None) };
}

/// Runs `read`, in which equal names share their memory.
pub(crate) fn sharing<R>(read: impl FnOnce() -> R) -> R {
    /// Puts back what was known around it.
    struct Restore(Option<Names>);
    impl Drop for Restore {
        fn drop(&mut self) {
            KNOWN.set(self.0.take());
        }
    }
    let _restore = Restore(KNOWN.replace(Some(Names::default())));
    read()
}

impl Name {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn shared(text: &str) -> Self {
        KNOWN.with_borrow_mut(|known| {
            let Some(known) = known else {
                return Name(text.into());
            };
            if let Some(name) = known.get(text) {
                return name.clone();
            }
            let name = Name(text.into());
            known.insert(name.clone());
            name
        })
    }
}

impl Default for Name {
    fn default() -> Self {
        Self::from("")
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Name, E> {
                Ok(Name::shared(text))
            }
        }

        from.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_of_one_member_share_their_memory() {
        let read = || serde_json::from_str::<[Name; 2]>(r#"["a","a"]"#).unwrap();
        let [a, b] = sharing(read);
        assert!(ArcStr::ptr_eq(&a.0, &b.0));
        let [a, b] = read();
        assert!(a == b && !ArcStr::ptr_eq(&a.0, &b.0));
        assert_eq!(size_of::<Option<Name>>(), 8);
    }
}
