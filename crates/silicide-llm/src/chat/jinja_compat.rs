//! Rewrites a template's syntax tree so that bytes are counted where values grow or are read whole.
//!
//! The engine counts instructions, not bytes. Here the operands or the result of each operator, call, filter and literal
//! go through a function of `budget.rs`. The names of these functions are signs, so no template can call or replace
//! them. Texts between tags become expressions, so that all output goes through one formatter. Constants are not folded
//! where folding could multiply them.

use super::error::exhausted;
use minijinja::Error;
use minijinja::Value;
use minijinja::machinery::ast::{self, BinOpKind, CallArg, Expr, Spanned, Stmt};
use minijinja::machinery::{CodeGenerator, Instructions, Span, Token, parse, tokenize};
use minijinja::syntax::SyntaxConfig;
use std::collections::BTreeMap;

/// Converts a value to text for joining.
pub(super) const TEXT: &str = "~";
/// Counts a value that is about to be copied.
pub(super) const COPIED: &str = "+";
/// Multiplies two values.
pub(super) const TIMES: &str = "*";
/// Counts a value that is about to be read whole.
pub(super) const READ: &str = "#";
/// Counts a new value, and converts a lazy one to a list.
pub(super) const MADE: &str = "=";
/// Takes a slice with a step.
pub(super) const STEPPED: &str = ":";

/// The most operators in one tag, and branches of conditions: they nest without brackets, and the parser limits only
/// brackets. Templates of models have some 30; the stack of a thread has room for this many.
const CHAIN: usize = 128;

/// A template that is ready to run.
pub(super) type Compiled<'a> = (Instructions<'a>, BTreeMap<&'a str, Instructions<'a>>);

/// Parses, rewrites and compiles a template.
pub(super) fn compile<'a>(
    source: &'a str,
    name: &'a str,
    syntax: SyntaxConfig,
) -> Result<Compiled<'a>, Error> {
    check_chains(source, syntax.clone())?;
    let tree = statement(&parse(source, name, syntax)?);
    let mut generator = CodeGenerator::new(name, source);
    generator.compile_stmt(&tree);
    Ok(generator.finish())
}

/// Refuses long chains of operators: they make deep trees, which would overflow the stack.
fn check_chains(source: &str, syntax: SyntaxConfig) -> Result<(), Error> {
    let (mut chain, mut branches, mut is_operand) = (0, 0, false);
    // The parser reports text that can't be tokenized.
    for (token, _) in tokenize(source, false, syntax).map_while(Result::ok) {
        match token {
            Token::VariableStart | Token::BlockStart => chain = 0,
            Token::Ident("elif") => branches += 1,
            Token::Ident("and" | "or" | "not" | "is" | "in" | "if" | "else") => chain += 1,
            Token::Plus
            | Token::Minus
            | Token::Mul
            | Token::Div
            | Token::FloorDiv
            | Token::Pow
            | Token::Mod
            | Token::Dot
            | Token::Tilde
            | Token::Pipe
            | Token::Eq
            | Token::Ne
            | Token::Gt
            | Token::Gte
            | Token::Lt
            | Token::Lte => chain += 1,
            // Calls and subscripts; other brackets nest, and the parser counts those.
            Token::BracketOpen | Token::ParenOpen if is_operand => chain += 1,
            _ => {}
        }
        is_operand = matches!(
            token,
            Token::Ident(_)
                | Token::Str(_)
                | Token::String(_)
                | Token::BracketClose
                | Token::ParenClose
                | Token::BraceClose
        );
        if chain > CHAIN || branches > CHAIN {
            return Err(exhausted());
        }
    }
    Ok(())
}

fn spanned<T>(node: T, span: Span) -> Spanned<T> {
    Spanned::new(node, span)
}

fn body<'a>(statements: &[Stmt<'a>]) -> Vec<Stmt<'a>> {
    statements.iter().map(statement).collect()
}

fn statement<'a>(stmt: &Stmt<'a>) -> Stmt<'a> {
    match stmt {
        Stmt::Template(s) => Stmt::Template(spanned(ast::Template { children: body(&s.children) }, s.span())),
        Stmt::EmitRaw(s) => {
            let expr = Expr::Const(spanned(ast::Const { value: Value::from(s.raw) }, s.span()));
            Stmt::EmitExpr(spanned(ast::EmitExpr { expr }, s.span()))
        }
        Stmt::EmitExpr(s) => {
            let expr = match &s.expr {
                // These write their output themselves.
                Expr::Call(c) if is_direct(c) => Expr::Call(call(c)),
                other => expression(other),
            };
            Stmt::EmitExpr(spanned(ast::EmitExpr { expr }, s.span()))
        }
        Stmt::ForLoop(s) => {
            let node = ast::ForLoop {
                target: target(&s.target),
                iter: expression(&s.iter),
                filter_expr: s.filter_expr.as_ref().map(expression),
                recursive: s.recursive,
                body: body(&s.body),
                else_body: body(&s.else_body),
            };
            Stmt::ForLoop(spanned(node, s.span()))
        }
        Stmt::IfCond(s) => {
            let node = ast::IfCond {
                expr: expression(&s.expr),
                true_body: body(&s.true_body),
                false_body: body(&s.false_body),
            };
            Stmt::IfCond(spanned(node, s.span()))
        }
        Stmt::WithBlock(s) => {
            let assignments = s.assignments.iter().map(|(to, from)| (target(to), expression(from))).collect();
            Stmt::WithBlock(spanned(ast::WithBlock { assignments, body: body(&s.body) }, s.span()))
        }
        Stmt::Set(s) => {
            // The values of a namespace outlive its scope, and may nest.
            let expr = match &s.target {
                Expr::GetAttr(_) => marked(MADE, expression(&s.expr)),
                _ => expression(&s.expr),
            };
            Stmt::Set(spanned(ast::Set { target: target(&s.target), expr }, s.span()))
        }
        Stmt::SetBlock(s) => {
            let filter = s.filter.as_ref().map(expression);
            let node = ast::SetBlock { target: target(&s.target), filter, body: body(&s.body) };
            Stmt::SetBlock(spanned(node, s.span()))
        }
        Stmt::AutoEscape(s) => {
            let node = ast::AutoEscape { enabled: expression(&s.enabled), body: body(&s.body) };
            Stmt::AutoEscape(spanned(node, s.span()))
        }
        Stmt::FilterBlock(s) => {
            let node = ast::FilterBlock { filter: expression(&s.filter), body: body(&s.body) };
            Stmt::FilterBlock(spanned(node, s.span()))
        }
        Stmt::Block(s) => {
            let node = ast::Block { name: s.name, required: s.required, body: body(&s.body) };
            Stmt::Block(spanned(node, s.span()))
        }
        Stmt::Import(s) => {
            let node = ast::Import { expr: expression(&s.expr), name: target(&s.name) };
            Stmt::Import(spanned(node, s.span()))
        }
        Stmt::FromImport(s) => {
            let names = s.names.iter().map(|(name, alias)| (target(name), alias.as_ref().map(target)));
            let node = ast::FromImport { expr: expression(&s.expr), names: names.collect() };
            Stmt::FromImport(spanned(node, s.span()))
        }
        Stmt::Extends(s) => Stmt::Extends(spanned(ast::Extends { name: expression(&s.name) }, s.span())),
        Stmt::Include(s) => {
            let node = ast::Include { name: expression(&s.name), ignore_missing: s.ignore_missing };
            Stmt::Include(spanned(node, s.span()))
        }
        Stmt::Macro(s) => Stmt::Macro(declaration(s)),
        Stmt::CallBlock(s) => {
            let node = ast::CallBlock { call: call(&s.call), macro_decl: declaration(&s.macro_decl) };
            Stmt::CallBlock(spanned(node, s.span()))
        }
        Stmt::Continue(s) => Stmt::Continue(spanned(ast::Continue, s.span())),
        Stmt::Break(s) => Stmt::Break(spanned(ast::Break, s.span())),
        Stmt::Do(s) => Stmt::Do(spanned(ast::Do { call: call(&s.call) }, s.span())),
    }
}

fn declaration<'a>(s: &Spanned<ast::Macro<'a>>) -> Spanned<ast::Macro<'a>> {
    let node = ast::Macro {
        name: s.name,
        args: s.args.iter().map(target).collect(),
        defaults: s.defaults.iter().map(expression).collect(),
        body: body(&s.body),
    };
    spanned(node, s.span())
}

/// Rewrites the target of an assignment. Names stay as they are.
fn target<'a>(expr: &Expr<'a>) -> Expr<'a> {
    match expr {
        Expr::List(s) => {
            Expr::List(spanned(ast::List { items: s.items.iter().map(target).collect() }, s.span()))
        }
        Expr::Tuple(s) => {
            Expr::Tuple(spanned(ast::Tuple { items: s.items.iter().map(target).collect() }, s.span()))
        }
        other => expression(other),
    }
}

/// Returns a call of the counting function `name`.
fn counted<'a>(name: &'static str, operands: Vec<Expr<'a>>, span: Span) -> Expr<'a> {
    let expr = Expr::Var(spanned(ast::Var { id: name }, span));
    let args = operands.into_iter().map(CallArg::Pos).collect();
    Expr::Call(spanned(ast::Call { expr, args }, span))
}

/// Returns a call of the counting function `name`, or a constant as it is: constants are small.
fn marked<'a>(name: &'static str, expr: Expr<'a>) -> Expr<'a> {
    let span = expr.span();
    match expr {
        Expr::Const(_) => expr,
        other => counted(name, vec![other], span),
    }
}

fn read<'a>(expr: &Expr<'a>) -> Expr<'a> {
    marked(READ, expression(expr))
}

fn expression<'a>(expr: &Expr<'a>) -> Expr<'a> {
    let span = expr.span();
    match expr {
        Expr::Var(s) => Expr::Var(spanned(ast::Var { id: s.id }, span)),
        Expr::Const(s) => Expr::Const(spanned(ast::Const { value: s.value.clone() }, span)),
        Expr::Slice(s) => {
            let part = |part: &Option<Expr<'a>>| part.as_ref().map(expression);
            let (start, stop, step) = (part(&s.start), part(&s.stop), part(&s.step));
            if let Some(step) = step {
                let none = || Expr::Const(spanned(ast::Const { value: Value::from(()) }, span));
                let bounds = [start.unwrap_or_else(none), stop.unwrap_or_else(none), step];
                let sliced = [read(&s.expr)].into_iter().chain(bounds).collect();
                return marked(MADE, counted(STEPPED, sliced, span));
            }
            let node = ast::Slice { expr: read(&s.expr), start, stop, step };
            marked(MADE, Expr::Slice(spanned(node, span)))
        }
        Expr::UnaryOp(s) => {
            let negated = matches!(s.op, ast::UnaryOpKind::Neg);
            let op = if negated { ast::UnaryOpKind::Neg } else { ast::UnaryOpKind::Not };
            Expr::UnaryOp(spanned(ast::UnaryOp { op, expr: expression(&s.expr) }, span))
        }
        Expr::BinOp(s) => binary(s),
        Expr::Compare(s) => {
            let ops = s.ops.iter().map(|op| ast::CompareOp { op: op.op, expr: read(&op.expr) }).collect();
            Expr::Compare(spanned(ast::Compare { expr: read(&s.expr), ops }, span))
        }
        Expr::IfExpr(s) => {
            let node = ast::IfExpr {
                test_expr: expression(&s.test_expr),
                true_expr: expression(&s.true_expr),
                false_expr: s.false_expr.as_ref().map(expression),
            };
            Expr::IfExpr(spanned(node, span))
        }
        Expr::Filter(s) => {
            let node =
                ast::Filter { name: s.name, expr: s.expr.as_ref().map(read), args: arguments(&s.args) };
            marked(MADE, Expr::Filter(spanned(node, span)))
        }
        Expr::Test(s) => {
            // Tests without arguments read only the kind of a value.
            let tested = if s.args.is_empty() { expression(&s.expr) } else { read(&s.expr) };
            Expr::Test(spanned(ast::Test { name: s.name, expr: tested, args: arguments(&s.args) }, span))
        }
        Expr::GetAttr(s) => {
            Expr::GetAttr(spanned(ast::GetAttr { expr: expression(&s.expr), name: s.name }, span))
        }
        Expr::GetItem(s) => {
            let node =
                ast::GetItem { expr: expression(&s.expr), subscript_expr: expression(&s.subscript_expr) };
            Expr::GetItem(spanned(node, span))
        }
        Expr::Call(s) => match &s.expr {
            // At most 100,000 numbers, computed one at a time.
            Expr::Var(var) if var.id == "range" => Expr::Call(call(s)),
            _ => marked(MADE, Expr::Call(call(s))),
        },
        Expr::List(s) => {
            let items = s.items.iter().map(expression).collect();
            marked(MADE, Expr::List(spanned(ast::List { items }, span)))
        }
        Expr::Tuple(s) => {
            let items = s.items.iter().map(expression).collect();
            marked(MADE, Expr::Tuple(spanned(ast::Tuple { items }, span)))
        }
        Expr::Map(s) => {
            let keys = s.keys.iter().map(read).collect();
            let values = s.values.iter().map(expression).collect();
            marked(MADE, Expr::Map(spanned(ast::Map { keys, values }, span)))
        }
    }
}

fn binary<'a>(s: &Spanned<ast::BinOp<'a>>) -> Expr<'a> {
    let span = s.span();
    let (left, right) = (&s.left, &s.right);
    let operator = |left, right| Expr::BinOp(spanned(ast::BinOp { op: s.op, left, right }, span));
    // Constants are counted too: this keeps them from being folded.
    let both = |name| {
        let operand = |expr: &Expr<'a>| counted(name, vec![expression(expr)], expr.span());
        operator(operand(left), operand(right))
    };
    match s.op {
        BinOpKind::Concat => both(TEXT),
        BinOpKind::Add => counted(MADE, vec![both(COPIED)], span),
        BinOpKind::Mul => counted(TIMES, vec![expression(left), expression(right)], span),
        BinOpKind::ScAnd
        | BinOpKind::ScOr
        | BinOpKind::Sub
        | BinOpKind::Div
        | BinOpKind::FloorDiv
        | BinOpKind::Rem
        | BinOpKind::Pow => operator(expression(left), expression(right)),
        BinOpKind::Eq
        | BinOpKind::Ne
        | BinOpKind::Lt
        | BinOpKind::Lte
        | BinOpKind::Gt
        | BinOpKind::Gte
        | BinOpKind::In => operator(read(left), read(right)),
    }
}

/// Returns whether the engine runs a call in place: another round of a loop, or a block.
fn is_direct(c: &ast::Call<'_>) -> bool {
    match &c.expr {
        Expr::Var(var) => matches!(var.id, "loop" | "super"),
        Expr::GetAttr(attr) => matches!(&attr.expr, Expr::Var(var) if var.id == "self"),
        _ => false,
    }
}

fn call<'a>(s: &Spanned<ast::Call<'a>>) -> Spanned<ast::Call<'a>> {
    let expr = match &s.expr {
        Expr::GetAttr(attr) => {
            let engine = matches!(&attr.expr, Expr::Var(var) if matches!(var.id, "self" | "loop"));
            let of = if engine { expression(&attr.expr) } else { read(&attr.expr) };
            Expr::GetAttr(spanned(ast::GetAttr { expr: of, name: attr.name }, attr.span()))
        }
        other => expression(other),
    };
    spanned(ast::Call { expr, args: arguments(&s.args) }, s.span())
}

fn arguments<'a>(args: &[CallArg<'a>]) -> Vec<CallArg<'a>> {
    let argument = |arg: &CallArg<'a>| match arg {
        CallArg::Pos(expr) => CallArg::Pos(read(expr)),
        CallArg::Kwarg(name, expr) => CallArg::Kwarg(name, read(expr)),
        CallArg::PosSplat(expr) => CallArg::PosSplat(read(expr)),
        CallArg::KwargSplat(expr) => CallArg::KwargSplat(read(expr)),
    };
    args.iter().map(argument).collect()
}
