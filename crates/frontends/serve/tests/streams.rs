//! Streams of gRPC over HTTP/2, and callers that read their answers slowly.

mod common;

use bytes::Bytes;
use common::{Served, request, serve, serve_files, wait_until};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use std::collections::BTreeMap;
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
    #[prost(btree_map = "string, message", tag = "4")]
    parameters: BTreeMap<String, Parameter>,
    #[prost(message, repeated, tag = "5")]
    inputs: Vec<Input>,
    #[prost(bytes = "bytes", repeated, tag = "7")]
    raw: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct Parameter {
    #[prost(bool, optional, tag = "1")]
    boolean: Option<bool>,
    #[prost(int64, optional, tag = "2")]
    integer: Option<i64>,
}

/// The answer in a stream as far as these tests need it.
#[derive(Clone, PartialEq, Message)]
struct StreamAnswer {
    #[prost(string, tag = "1")]
    error: String,
    #[prost(message, optional, tag = "2")]
    response: Option<InferAnswer>,
}

#[derive(Clone, PartialEq, Message)]
struct InferAnswer {
    #[prost(string, tag = "3")]
    id: String,
    #[prost(bytes = "bytes", repeated, tag = "6")]
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
    images_of("digits", rows, id)
}

fn images_of(model: &str, rows: usize, id: &str) -> Bytes {
    framed(&InferRequest {
        model_name: model.into(),
        id: id.into(),
        inputs: vec![Input {
            name: "image".into(),
            datatype: "FP32".into(),
            shape: vec![rows as i64, 1, 8, 8],
        }],
        raw: vec![vec![0; rows * 256].into()],
        ..InferRequest::default()
    })
}

/// A request of a sequence to the model `sum`, which adds `x` to its state.
fn addition(sequence: i64, x: f32, is_first: bool, is_last: bool) -> Bytes {
    let boolean = |value| Parameter {
        boolean: Some(value),
        integer: None,
    };
    let number = Parameter {
        boolean: None,
        integer: Some(sequence),
    };
    framed(&InferRequest {
        model_name: "sum".into(),
        id: format!("{sequence}"),
        parameters: BTreeMap::from([
            ("sequence_id".into(), number),
            ("sequence_start".into(), boolean(is_first)),
            ("sequence_end".into(), boolean(is_last)),
        ]),
        inputs: vec![Input {
            name: "x".into(),
            datatype: "FP32".into(),
            shape: vec![1, 2],
        }],
        raw: vec![[x.to_le_bytes(); 2].concat().into()],
    })
}

/// A message with its prefix.
fn framed(message: &InferRequest) -> Bytes {
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

/// The next answer of a stream.
async fn next_answer(answer: &mut Incoming, read: &mut Vec<u8>) -> StreamAnswer {
    loop {
        if let Some((head, rest)) = read.split_first_chunk::<5>() {
            let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
            if let Some((message, rest)) = rest.split_at_checked(length) {
                let message = StreamAnswer::decode(message).unwrap();
                *read = rest.to_vec();
                return message;
            }
        }
        read.extend_from_slice(&next(answer).await.into_data().expect("an answer"));
    }
}

#[test]
fn answers_of_a_stream_are_in_the_order_of_its_requests() {
    let served = serve(|_| {}, |_| {});
    runtime().block_on(async {
        let mut client = connect(&served).await;
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut answer = call(&mut client, "ModelStreamInfer", Parts(receiver)).await;
        // Answers of large requests, of requests that are refused at once, and of small ones.
        let kinds = [("digits", 2000), ("none", 1), ("digits", 1)];
        let count = 40;
        for at in 0..count {
            let (model, rows) = kinds[at % kinds.len()];
            let message = images_of(model, rows, &at.to_string());
            sender.send(message).unwrap();
        }
        drop(sender);
        let mut read = Vec::new();
        for at in 0..count {
            let found = next_answer(&mut answer, &mut read).await;
            let is_known = kinds[at % kinds.len()].0 == "digits";
            assert_eq!(found.error.is_empty(), is_known, "{}", found.error);
            assert_eq!(found.response.unwrap().id, at.to_string());
        }
    });
}

#[test]
fn requests_of_a_stream_are_executed_in_their_order() {
    let settings = "
        batch_delay = 0.001
        [sequence]
        start_input = 'start'
        [[sequence.state]]
        input = 'h'
        output = 'h_next'";
    let sum = include_bytes!("data/sum.onnx");
    let served = serve_files(&[("sum.onnx", sum), ("sum.toml", settings.as_bytes())]);
    runtime().block_on(async {
        let mut client = connect(&served).await;
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut answer = call(&mut client, "ModelStreamInfer", Parts(receiver)).await;
        let steps = 20;
        // All are sent before the first answer is read; ids are used again after the end of their sequence.
        for round in 0..3 {
            for step in 0..steps {
                for sequence in [1, 2] {
                    let x = (sequence * (round + step)) as f32;
                    let message = addition(sequence, x, step == 0, step == steps - 1);
                    sender.send(message).unwrap();
                }
            }
        }
        sender.send(addition(1, 0.0, false, false)).unwrap();
        drop(sender);
        let mut read = Vec::new();
        for round in 0..3 {
            let mut sums = [0.0; 2];
            for step in 0..steps {
                for sequence in [1, 2] {
                    let found = next_answer(&mut answer, &mut read).await;
                    assert_eq!(found.error, "");
                    let response = found.response.unwrap();
                    assert_eq!(response.id, sequence.to_string());
                    let sum = &mut sums[sequence - 1];
                    *sum -= (sequence as i64 * (round + step)) as f32;
                    let raw = f32::from_le_bytes(response.raw[0][..4].try_into().unwrap());
                    assert_eq!(raw, *sum, "{round}, {step}, {sequence}");
                }
            }
        }
        let after = next_answer(&mut answer, &mut read).await;
        assert!(after.error.contains("sequence_start"), "{}", after.error);
    });
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
