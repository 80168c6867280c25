//! Interceptors named by configs, which take packets where they are written, in place of a buffer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ferretto_client::WriterFactory;
use ferretto_proto::DataSourceConfig;

use super::primitive::lock;

/// Creates the writers of an instance with the given config.
pub type InterceptorFactory = Arc<dyn Fn(&DataSourceConfig) -> WriterFactory + Send + Sync>;

#[derive(Default)]
struct Registry {
    registered: HashMap<String, InterceptorFactory>,
    provided: HashMap<String, InterceptorFactory>,
}

static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

/// Registers an interceptor under a name. The first one of a name applies.
pub fn register_interceptor(name: &str, factory: InterceptorFactory) {
    let mut registry = lock(&REGISTRY);
    let registered = &mut registry.get_or_insert_default().registered;
    registered.entry(name.to_owned()).or_insert(factory);
}

/// Provides an interceptor under a name, unless another one is [registered](register_interceptor)
/// under it.
pub fn provide_interceptor(name: &str, factory: InterceptorFactory) {
    let mut registry = lock(&REGISTRY);
    let provided = &mut registry.get_or_insert_default().provided;
    provided.entry(name.to_owned()).or_insert(factory);
}

/// Creates the writers of an instance, if its config names a known interceptor.
pub(super) fn writers(config: &DataSourceConfig) -> Option<WriterFactory> {
    let wanted = config.interceptor_config.as_option()?;
    let name = String::from_utf8_lossy(wanted.name.as_deref()?);
    let factory = {
        let registry = lock(&REGISTRY);
        let registry = registry.as_ref()?;
        let registered = registry.registered.get(&*name);
        registered
            .or_else(|| registry.provided.get(&*name))
            .cloned()?
    };
    Some(factory(config))
}
