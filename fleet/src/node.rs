//! Common parts of our tables and operators.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::catalog::TableProvider;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::PlanProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};

/// Defines the methods of an operator of this name that stores its properties and has no
/// expressions for rules of the engine.
macro_rules! operator {
    ($name:literal) => {
        fn name(&self) -> &'static str {
            $name
        }

        fn properties(&self) -> &std::sync::Arc<datafusion::physical_plan::PlanProperties> {
            &self.properties
        }

        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(
                &std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>,
            ) -> datafusion::common::Result<
                datafusion::common::tree_node::TreeNodeRecursion,
            >,
        ) -> datafusion::common::Result<datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }
    };
}

/// Defines the methods of a table of this type that stores its schema.
macro_rules! relation {
    ($kind:ident) => {
        fn schema(&self) -> datafusion::arrow::datatypes::SchemaRef {
            self.schema.clone()
        }

        fn table_type(&self) -> datafusion::logical_expr::TableType {
            datafusion::logical_expr::TableType::$kind
        }
    };
}

pub(crate) use {operator, relation};

/// Returns the properties of a bounded operator with `parts` partitions.
pub(crate) fn properties(
    rows: EquivalenceProperties,
    parts: usize,
    emission: EmissionType,
) -> Arc<PlanProperties> {
    let parts = Partitioning::UnknownPartitioning(parts);
    Arc::new(PlanProperties::new(
        rows,
        parts,
        emission,
        Boundedness::Bounded,
    ))
}

/// Returns the names of the columns for the display of plans.
pub(crate) fn column_names(schema: &Schema) -> String {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    names.collect::<Vec<_>>().join(", ")
}

/// Returns a table as a `T` if it is one.
pub(crate) fn table_as<T: TableProvider>(table: &dyn TableProvider) -> Option<&T> {
    (table as &dyn std::any::Any).downcast_ref()
}
