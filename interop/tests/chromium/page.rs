//! A page that keeps a browser busy.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use ferretto_interop_driver::PATIENCE;

/// Computes, draws and sends requests to the server repeatedly.
const TEXT: &str = "<!doctype html><title>page</title><p id=text>text<script>
let round = 0;
async function work() {
  let sum = 0;
  for (let i = 0; i < 1e5; i++) sum += Math.sqrt(i);
  document.getElementById('text').textContent = 'round ' + round + ': ' + sum;
  await fetch('/round/' + round++);
  requestAnimationFrame(() => setTimeout(work, 20));
}
work();
</script>";

/// A server for the page on the loopback interface.
pub(crate) struct Page {
    port: u16,
    visits: Receiver<()>,
}

impl Page {
    pub(crate) fn serve() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("a port").port();
        let (sender, visits) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // The receiver was dropped.
                if answer(stream, &sender).is_none() {
                    break;
                }
            }
        });
        Self { port, visits }
    }

    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Waits for this many rounds from now on.
    pub(crate) fn await_visits(&self, count: usize) {
        while self.visits.try_recv().is_ok() {}
        for _ in 0..count {
            let visit = self.visits.recv_timeout(PATIENCE);
            visit.expect("the page sends requests");
        }
    }
}

fn answer(mut stream: TcpStream, visits: &Sender<()>) -> Option<()> {
    let mut request = String::new();
    let mut lines = BufReader::new(&stream);
    // Until the empty line that ends the request.
    while lines.read_line(&mut request).is_ok_and(|length| length > 2) {}
    let is_round = request.starts_with("GET /round/");
    let body = if is_round { "" } else { TEXT };
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    if is_round {
        visits.send(()).ok()
    } else {
        Some(())
    }
}
