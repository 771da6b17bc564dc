// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! A node of ROS 2's demos, with the settings of `rmw_zenoh`, but for its mode and the router that it asks:
//!
//!     ros2-node ROLE MODE ENDPOINT

use std::{env, future, process, time::Duration};

use hiroz::{
    Builder, Result,
    action::server::ExecutingGoal,
    context::ZContextBuilder,
    node::ZNode,
    qos::{QosDurability, QosProfile},
};
use hiroz_msgs::{
    action_tutorials_interfaces::{
        FibonacciFeedback, FibonacciGoal, FibonacciResult, action::Fibonacci,
    },
    example_interfaces::{AddTwoIntsRequest, AddTwoIntsResponse, srv::AddTwoInts},
    std_msgs::String as Words,
};
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(50);
/// More than one batch of zenoh's holds.
const LARGE: usize = 100_000;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [role, mode, endpoint] = arguments.as_slice() else {
        eprintln!("ros2-node ROLE MODE ENDPOINT");
        process::exit(2);
    };
    let context =
        ZContextBuilder::default().with_mode(mode).with_connect_endpoints([endpoint]).build()?;
    let node = context.create_node(role).build()?;
    match role.as_str() {
        "talker" => talk(&node).await,
        "listener" => listen(&node, "chatter", QosDurability::Volatile).await,
        "map_server" => publish_once(&node).await,
        "map_reader" => listen(&node, "map", QosDurability::TransientLocal).await,
        "adder" => add(&node).await,
        "add_client" => ask(&node).await,
        "fibonacci" => compute(&node).await,
        "fibonacci_client" => pursue(&node).await,
        other => Err(format!("no role is called {other}").into()),
    }
}

fn ready() {
    println!("Press CTRL-C to quit");
}

fn kept(durability: QosDurability) -> QosProfile {
    QosProfile { durability, ..Default::default() }
}

/// Every other message is large.
async fn talk(node: &ZNode) -> Result<()> {
    let publisher = node.create_pub::<Words>("chatter").build()?;
    if !publisher.wait_for_subscription(1, PATIENCE).await {
        return Err("the graph shows no listener".into());
    }
    for count in 0.. {
        let filling = "x".repeat(if count % 2 == 1 { LARGE } else { 0 });
        publisher.async_publish(&Words { data: format!("Hello World: {count} {filling}") }).await?;
        sleep(TICK).await;
    }
    Ok(())
}

async fn listen(node: &ZNode, topic: &str, durability: QosDurability) -> Result<()> {
    let subscriber = node.create_sub::<Words>(topic).with_qos(kept(durability)).build()?;
    ready();
    loop {
        let words = subscriber.async_recv().await?.data;
        println!("I heard: {} ({} B)", words.trim_end_matches('x'), words.len());
    }
}

/// What is transient local stays to be asked for.
async fn publish_once(node: &ZNode) -> Result<()> {
    let publisher =
        node.create_pub::<Words>("map").with_qos(kept(QosDurability::TransientLocal)).build()?;
    publisher.async_publish(&Words { data: "a map".into() }).await?;
    ready();
    future::pending().await
}

async fn add(node: &ZNode) -> Result<()> {
    let mut service = node.create_service::<AddTwoInts>("add_two_ints").build()?;
    ready();
    loop {
        let request = service.async_take_request().await?;
        let sum = request.message().a + request.message().b;
        request.reply(&AddTwoIntsResponse { sum }).await?;
    }
}

async fn ask(node: &ZNode) -> Result<()> {
    let client = node.create_client::<AddTwoInts>("add_two_ints").build()?;
    // The router may hear of the service after it was asked; then there is no reply.
    for _ in 0..PATIENCE.as_secs() {
        let request = AddTwoIntsRequest { a: 2, b: 40 };
        if let Ok(reply) = client.call_with_timeout(&request, Duration::from_secs(1)).await {
            println!("The sum is {}", reply.sum);
            return Ok(());
        }
    }
    Err("no reply".into())
}

async fn compute(node: &ZNode) -> Result<()> {
    let _server = node.create_action_server::<Fibonacci>("fibonacci").build()?.with_handler(
        |goal: ExecutingGoal<Fibonacci>| async move {
            let mut sequence = vec![0, 1];
            while sequence.len() <= goal.goal.order as usize {
                sequence.push(sequence[sequence.len() - 1] + sequence[sequence.len() - 2]);
                let feedback = FibonacciFeedback { partial_sequence: sequence.clone() };
                goal.publish_feedback(feedback).expect("the session is open");
                sleep(TICK).await;
            }
            goal.succeed(FibonacciResult { sequence }).expect("the goal was not cancelled");
        },
    );
    ready();
    future::pending().await
}

async fn pursue(node: &ZNode) -> Result<()> {
    let client = node.create_action_client::<Fibonacci>("fibonacci").build()?;
    if !client.wait_for_server(PATIENCE).await {
        return Err("the graph shows no server of the action".into());
    }
    let mut goal = client.send_goal(FibonacciGoal { order: 10 }).await?;
    let mut feedback = goal.feedback().expect("not taken yet");
    tokio::spawn(async move {
        while let Some(so_far) = feedback.recv().await {
            println!("Feedback: {:?}", so_far.partial_sequence);
        }
    });
    println!(
        "Result: {:?}",
        timeout(PATIENCE, goal.result()).await?.map(|result| result.sequence)?
    );
    Ok(())
}
