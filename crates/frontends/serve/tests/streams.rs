//! Streams of gRPC over HTTP/2, and callers that read their answers slowly.

mod common;

use bytes::Bytes;
use common::{Served, request, serve, wait_until};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use std::convert::Infallible;
use std::io::{Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

/// The request of `ModelInfer` as far as these tests need it.
#[derive(Clone, PartialEq, Message)]
struct InferRequest {
    #[prost(string, tag = "1")]
    model_name: String,
    #[prost(string, tag = "3")]
    id: String,
    #[prost(message, repeated, tag = "5")]
    inputs: Vec<Input>,
    #[prost(bytes = "bytes", repeated, tag = "7")]
    raw: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct Input {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    datatype: String,
    #[prost(int64, repeated, tag = "3")]
    shape: Vec<i64>,
}

/// A request for images of zeros, with its prefix.
fn images(rows: usize, id: &str) -> Bytes {
    let message = InferRequest {
        model_name: "digits".into(),
        id: id.into(),
        inputs: vec![Input {
            name: "image".into(),
            datatype: "FP32".into(),
            shape: vec![rows as i64, 1, 8, 8],
        }],
        raw: vec![vec![0; rows * 256].into()],
    };
    let bytes = message.encode_to_vec();
    [&[0][..], &(bytes.len() as u32).to_be_bytes(), &bytes]
        .concat()
        .into()
}

/// A body that a test sends in parts.
struct Parts(mpsc::UnboundedReceiver<Bytes>);

impl Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(context)
            .map(|part| part.map(|part| Ok(Frame::data(part))))
    }
}

type Client = SendRequest<BoxBody<Bytes, Infallible>>;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap()
}

async fn connect(served: &Served) -> Client {
    let stream = tokio::net::TcpStream::connect(served.address)
        .await
        .unwrap();
    let handshake = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        // The least that a client may start with by default (RFC 9113, 6.5.2).
        .initial_stream_window_size(65_535)
        .handshake(TokioIo::new(stream));
    let (sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn call(
    client: &mut Client,
    method: &str,
    body: impl Body<Data = Bytes, Error = Infallible> + Send + Sync + 'static,
) -> Incoming {
    let path = format!("http://localhost/inference.GRPCInferenceService/{method}");
    let request = Request::post(path)
        .header("content-type", "application/grpc")
        .body(body.boxed());
    client
        .send_request(request.unwrap())
        .await
        .unwrap()
        .into_body()
}

async fn next(answer: &mut Incoming) -> Frame<Bytes> {
    let frame = tokio::time::timeout(Duration::from_secs(60), answer.frame()).await;
    frame
        .expect("in time")
        .expect("a frame")
        .expect("it is whole")
}

#[test]
fn a_stream_ends_with_the_server() {
    let mut served = serve(|_| {}, |_| {});
    runtime().block_on(async {
        let mut client = connect(&served).await;
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut answer = call(&mut client, "ModelStreamInfer", Parts(receiver)).await;
        for id in ["first", "second"] {
            sender.send(images(1, id)).unwrap();
            let data = next(&mut answer).await.into_data().unwrap();
            assert!(data.windows(id.len()).any(|part| part == id.as_bytes()));
        }
        let server = served.server.take().unwrap();
        let begin = Instant::now();
        let drained = tokio::task::spawn_blocking(move || server.drain());
        let trailers = next(&mut answer).await.into_trailers().unwrap();
        // UNAVAILABLE: the caller may open a stream to another server.
        assert_eq!(trailers["grpc-status"], "14");
        assert!(drained.await.unwrap(), "all requests were finished");
        assert!(begin.elapsed() < Duration::from_secs(15));
    });
}

#[test]
fn a_stream_that_is_reset_cancels_its_requests() {
    let served = serve(
        |_| {},
        |options| {
            options.batches.delay = Duration::from_secs(60);
        },
    );
    runtime().block_on(async {
        let mut client = connect(&served).await;
        let (sender, receiver) = mpsc::unbounded_channel();
        let answer = call(&mut client, "ModelStreamInfer", Parts(receiver)).await;
        for _ in 0..3 {
            sender.send(images(1, "")).unwrap();
        }
        let depth = "tenon_queue_depth{model=\"digits\",version=\"1\"}";
        let served = &served;
        tokio::task::block_in_place(|| served.wait_for_metric(depth, 3.0));
        drop((answer, sender));
        tokio::task::block_in_place(|| {
            served.wait_for_metric("tenon_in_flight", 0.0);
            served.wait_for_metric("tenon_cancelled_total", 3.0);
        });
    });
}

fn impatient() -> Served {
    serve(
        |options| options.answer_timeout = Duration::from_millis(300),
        |_| {},
    )
}

#[test]
fn an_answer_that_is_not_read_closes_a_connection_of_http2() {
    let served = impatient();
    runtime().block_on(async {
        let mut client = connect(&served).await;
        // 4000 rows have 160 000 bytes, more than the window that the client opens.
        let mut answer = call(&mut client, "ModelInfer", Full::new(images(4000, ""))).await;
        let begin = Instant::now();
        let served = &served;
        tokio::task::block_in_place(|| {
            // The connection that reads the metric is the only one.
            served.wait_for_metric("tenon_connections", 1.0);
        });
        assert!(begin.elapsed() >= Duration::from_millis(200));
        let mut read = 0;
        let error = loop {
            match answer.frame().await.expect("the answer is cut") {
                Ok(frame) => read += frame.data_ref().map_or(0, Bytes::len),
                Err(error) => break error,
            }
        };
        assert!(read < 160_000, "{read}: {error}");
        // One that is read is whole.
        let mut client = connect(served).await;
        let answer = call(&mut client, "ModelInfer", Full::new(images(4000, ""))).await;
        assert!(answer.collect().await.unwrap().to_bytes().len() > 160_000);
    });
}

#[test]
fn answers_that_are_not_read_close_a_connection_of_http1() {
    let served = impatient();
    let mut stream = served.connect();
    let limit = Some(Duration::from_secs(60));
    stream.set_write_timeout(limit).unwrap();
    let page = request("GET", "/metrics", &[], b"");
    // The buffers of the sockets take some MB.
    let begin = Instant::now();
    let error = loop {
        if let Err(error) = stream.write_all(&page) {
            break error;
        }
    };
    assert!(begin.elapsed() < Duration::from_secs(50), "{error}");
    wait_until("the connection is closed", || {
        served.metric("tenon_connections") == 1.0
    });
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
}
