//! The front door: models, chats, replies and completions, on a tiny model with a chat template.
#![allow(clippy::unwrap_used)]

use samples::testdata;
use silicide_core::{CancelToken, Device};
use silicide_llm::engine::{Finish, GenerateOptions, Session, generate};
use silicide_llm::{Chat, Completion, Error, Message, Model, Role};

fn model() -> Model {
    Model::options().device(&Device::cpu().unwrap()).open(testdata("models/llama-chat.gguf")).unwrap()
}

/// The most likely tokens, without an end.
fn greedy(tokens: usize) -> GenerateOptions {
    GenerateOptions::default().max_tokens(tokens).temperature(0.0).ignore_end(true)
}

fn chat(tokens: usize) -> Chat {
    model().chat().unwrap().with_options(greedy(tokens))
}

#[test]
fn a_reply_yields_the_text_of_the_callback_form_in_the_same_pieces() {
    let mut chat = chat(24).with_system("Be brief.");
    let messages = [Message::system("Be brief."), Message::user("Hello")];
    let mut session = Session::new(chat.model()).unwrap();
    let (prompt, mut expected) = (chat.model().chat_tokens(&messages).unwrap(), Vec::new());
    let generation = generate(&mut session, &prompt, &greedy(24), &mut |text| expected.push(text.to_owned()));
    expected.retain(|piece| !piece.is_empty());

    let mut reply = chat.say("Hello").unwrap();
    assert_eq!(reply.finish_reason(), None);
    let pieces: Vec<String> = reply.by_ref().map(Result::unwrap).collect();
    assert_eq!(pieces, expected);
    assert_eq!(reply.text(), generation.unwrap().text);
    assert_eq!(reply.finish_reason(), Some(Finish::MaxTokens));
    assert_eq!((reply.timings().prompt_tokens, reply.timings().generated_tokens), (prompt.len(), 24));
    assert!(reply.next().is_none());
    drop(reply);
    assert_eq!(chat.messages()[2], Message::assistant(expected.concat()));
    assert_eq!(chat.last().unwrap().finish, Finish::MaxTokens);
}

#[test]
fn a_dropped_reply_keeps_the_text_so_far_as_the_answer() {
    let mut chat = chat(100);
    let mut reply = chat.say("Hello").unwrap();
    let piece = reply.next().unwrap().unwrap();
    drop(reply);
    assert_eq!(chat.messages(), [Message::user("Hello"), Message::assistant(piece)]);
    assert_eq!(chat.last().unwrap().finish, Finish::Cancelled);
    // The next turn continues from there, and feeds only what is new.
    let mut reply = chat.say("Go on").unwrap();
    reply.next().unwrap().unwrap();
    assert!(reply.timings().reused_tokens > 0);
    drop(reply);
    assert_eq!(chat.messages().len(), 4);
}

#[test]
fn a_reply_without_a_token_leaves_the_chat_as_it_was() {
    let mut chat = chat(4);
    drop(chat.say("Hello").unwrap());
    assert!(chat.messages().is_empty());
    let mut reply = chat.say("Hello").unwrap();
    reply.cancel_token().cancel();
    assert!(reply.next().is_none());
    assert_eq!(reply.finish_reason(), Some(Finish::Cancelled));
    drop(reply);
    assert!(chat.messages().is_empty());
}

#[test]
fn a_cancel_token_of_a_reply_ends_it_and_that_of_the_options_ends_all_replies() {
    let program = CancelToken::new();
    let mut chat = model().chat().unwrap().with_options(greedy(1000).cancel(program.clone()));
    let mut reply = chat.say("Hello").unwrap();
    let cancel = reply.cancel_token();
    let thread = std::thread::spawn(move || cancel.cancel());
    thread.join().unwrap();
    assert!(reply.next().is_none());
    drop(reply);
    assert!(chat.say("Hello").unwrap().next().unwrap().is_ok());
    program.cancel();
    assert!(chat.say("Hello").unwrap().next().is_none());
}

#[test]
fn a_stopped_reply_yields_no_more_text() {
    let mut chat = chat(100);
    let mut reply = chat.say("Hello").unwrap();
    reply.next().unwrap().unwrap();
    reply.stop();
    assert!(reply.next().is_none());
    assert_eq!(reply.finish_reason(), Some(Finish::Cancelled));
}

#[test]
fn a_message_that_is_refused_leaves_the_chat_as_it_was() {
    let mut chat = chat(4);
    let error = chat.say("x ".repeat(5000)).unwrap_err();
    assert!(matches!(error, Error::ContextFull { .. }), "{error}");
    chat.options_mut().sampler.temperature = -1.0;
    let error = chat.say("Hello").unwrap_err();
    assert!(matches!(error, Error::BadOption { .. }), "{error}");
    assert!(chat.messages().is_empty());
}

#[test]
fn a_chat_that_was_saved_continues_as_if_it_had_not_been() {
    let mut first = chat(8);
    first.say("Hello").unwrap().into_text().unwrap();
    let saved = serde_json::to_string(first.messages()).unwrap();
    let messages: Vec<Message> = serde_json::from_str(&saved).unwrap();
    let mut second = chat(8).with_messages(messages);
    let [first, second] =
        [&mut first, &mut second].map(|chat| chat.say("Go on").unwrap().into_text().unwrap());
    assert_eq!(first, second);
}

#[test]
fn each_reply_is_sampled_with_a_seed_of_its_own() {
    let mut chat = model().chat().unwrap().with_options(greedy(16).temperature(5.0));
    let first = chat.say("Hello").unwrap().into_text().unwrap();
    chat.messages_mut().clear();
    let second = chat.say("Hello").unwrap().into_text().unwrap();
    assert_ne!(first, second);
}

#[test]
fn a_system_message_stays_first_and_single() {
    let chat = chat(1).with_messages([Message::user("Hi")]).with_system("One.").with_system("Two.");
    let roles: Vec<&Role> = chat.messages().iter().map(|message| &message.role).collect();
    assert_eq!(roles, [&Role::System, &Role::User]);
    assert_eq!(chat.messages()[0].content, "Two.");
}

#[test]
fn a_completion_yields_the_text_of_the_callback_form() {
    let model = model();
    let options = greedy(16).stop("never that");
    let prompt = model.tokenizer().encode_prompt("Once upon", silicide_llm::tokenizer::Special::Parse);
    let mut session = Session::new(&model).unwrap();
    let expected = generate(&mut session, &prompt, &options, &mut |_| ()).unwrap();
    let mut completion = model.complete_with("Once upon", options).unwrap();
    let text: String = completion.by_ref().map(Result::unwrap).collect();
    assert_eq!(text, expected.text);
    assert_eq!(completion.finish_reason(), Some(expected.finish));
    assert_eq!(completion.timings().generated_tokens, 16);
}

#[test]
fn a_full_context_ends_a_completion() {
    let device = Device::cpu().unwrap();
    let model =
        Model::options().device(&device).context(32).open(testdata("models/llama-tied.gguf")).unwrap();
    let mut completion = model.complete_with("Once", greedy(1000)).unwrap();
    let text: String = completion.by_ref().map(Result::unwrap).collect();
    assert_eq!(completion.finish_reason(), Some(Finish::ContextFull));
    assert_eq!(completion.text(), text);
    assert!(matches!(model.complete(&"x ".repeat(100)), Err(Error::ContextFull { .. })));
}

#[test]
fn a_model_without_a_template_completes_but_does_not_chat() {
    let model = Model::open(testdata("models/llama-tied.gguf")).unwrap();
    assert!(matches!(model.chat(), Err(Error::Chat(_))));
    assert!(model.complete("Once").unwrap().next().unwrap().is_ok());
}

#[test]
fn tokens_of_a_text_are_its_text_again() {
    let model = model();
    let tokens = model.tokenize("Grüße <|im_end|>");
    assert_eq!(model.detokenize(&tokens), "Grüße <|im_end|>");
    assert_eq!(model.count_tokens("Grüße <|im_end|>"), tokens.len());
}

#[test]
fn models_are_shared_by_threads_and_chats_move_between_them() {
    fn shared<T: Clone + Send + Sync>() {}
    fn moved<T: Send>() {}
    shared::<Model>();
    moved::<Chat>();
    moved::<Completion>();
    let model = model();
    let say = |model: &Model| {
        let mut chat = model.chat().unwrap().with_options(greedy(8));
        chat.say("Hello").unwrap().into_text().unwrap()
    };
    let expected = say(&model);
    let threads: Vec<_> = (0..2)
        .map(|_| {
            std::thread::spawn({
                let model = model.clone();
                move || say(&model)
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), expected));
}
