//! Custom types as arguments, and functions traced by an attribute.
//!
//! Run it with `ferretto record -- cargo run -p ferretto --example derive`, then `ferretto open`:
//! the arguments of each slice are below it when it is selected.

use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use ferretto::{Argument, trace};

/// An order, recorded as a dictionary.
#[derive(Argument)]
struct Order {
    id: u64,
    #[argument(rename = "from")]
    address: Ipv4Addr,
    items: Vec<Item>,
    payment: Payment,
    #[argument(with = display)]
    total: Euro,
    #[argument(skip)]
    card_number: String,
}

#[derive(Argument)]
struct Item {
    name: &'static str,
    count: u32,
}

#[derive(Argument)]
enum Payment {
    Invoice,
    Card { limit: Option<u32> },
}

struct Euro(u32);

impl fmt::Display for Euro {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02} €", self.0 / 100, self.0 % 100)
    }
}

struct Shop {
    orders: u32,
}

impl Shop {
    /// Takes an order. Each call is a slice; its arguments are evaluated only while a recording
    /// runs.
    #[trace(category = "shop", args(order))]
    fn take(&mut self, order: &Order) -> Result<(), &'static str> {
        self.orders += 1;
        check(&order.card_number)?;
        pack(&order.items);
        Ok(())
    }
}

#[trace(category = "shop")]
fn check(card_number: &str) -> Result<(), &'static str> {
    std::thread::sleep(Duration::from_millis(1));
    if card_number.is_empty() {
        return Err("no card");
    }
    Ok(())
}

#[trace(category = "shop", args(kinds = items.len()))]
fn pack(items: &[Item]) {
    for item in items {
        std::thread::sleep(Duration::from_micros(u64::from(item.count) * 100));
    }
}

fn main() -> Result<(), ferretto::InitError> {
    ferretto::init()?;
    let mut shop = Shop { orders: 0 };
    for id in 0..10 {
        let order = Order {
            id,
            address: Ipv4Addr::new(192, 0, 2, id as u8),
            items: vec![
                Item {
                    name: "polenta",
                    count: 1,
                },
                Item {
                    name: "tartufo",
                    count: 3,
                },
            ],
            payment: match id % 2 {
                0 => Payment::Invoice,
                _ => Payment::Card { limit: Some(500) },
            },
            total: Euro(1999),
            card_number: "x".repeat((id % 3) as usize),
        };
        if let Err(reason) = shop.take(&order) {
            ferretto::instant!("shop", "refused", id = id, reason = reason);
        }
    }
    ferretto::counter!("shop", "orders", shop.orders);
    ferretto::flush(Duration::from_secs(5));
    Ok(())
}
