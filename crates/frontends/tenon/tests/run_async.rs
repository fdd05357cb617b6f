//! Asynchronous executions of a model, awaited by a hand-written executor.

use tenon::{
    AsyncOptions, Compiler, Control, ErrorKind, LoadOptions, Model, Priority, RunQueue, Tensor,
};
use tenon_test_data::{block_on, repository};

fn model() -> Model {
    let package = Compiler::new().compile_file(repository("models/digits/digits.onnx"));
    package.unwrap().load(&LoadOptions::new()).unwrap()
}

fn image(value: f32) -> Tensor {
    Tensor::from_slice([1, 1, 8, 8], &[value; 64]).unwrap()
}

#[test]
fn futures_of_several_threads_have_the_outputs_of_run() {
    let model = model();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let model = &model;
            scope.spawn(move || {
                for priority in [Priority::Low, Priority::Normal, Priority::High] {
                    let image = image(f32::from(thread));
                    let expected = model.run(&[("image", &image)]).unwrap();
                    let future = model.run_async([("image", image)], priority);
                    assert_eq!(block_on(future).unwrap(), expected);
                }
            });
        }
    });
}

#[test]
fn errors_arrive_through_the_future() {
    let model = model();
    let unknown = model.run_async([("picture", image(0.0))], Priority::Normal);
    assert!(block_on(unknown).unwrap_err().to_string().contains("image"));
    let control = Control::new();
    control.cancel();
    let options = AsyncOptions::new().control(control);
    let cancelled = model.run_async_with([("image", image(0.0))], options);
    let error = block_on(cancelled).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[test]
fn a_separate_queue_runs_executions() {
    let model = model();
    let queue = RunQueue::new(2, 8);
    let futures: Vec<_> = (0..8u8)
        .map(|value| {
            let inputs = [("image", image(f32::from(value)))];
            queue.run(&model, inputs, AsyncOptions::new())
        })
        .collect();
    for future in futures {
        assert_eq!(block_on(future).unwrap()[0].shape()[..], [1, 10]);
    }
    assert_eq!(queue.waiting(), 0);
}
