//! Graphs for people: as text, one line for each node, and for Graphviz.

use super::compute::{ComputeGraph, Node, Operand, Origin, ValueId};
use std::fmt::{self, Write as _};
use std::ops::Range;

impl ComputeGraph {
    /// Some of the nodes as a drawing for Graphviz, in boxes by scope. What comes from elsewhere has dashed borders, and round
    /// corners if it is a parameter.
    pub fn dot(&self, nodes: Range<usize>) -> String {
        let mut text = String::from("digraph {\n  node [shape=box, fontname=\"sans-serif\", fontsize=11];\n");
        let shown: Vec<(usize, &Node)> =
            self.nodes.iter().enumerate().filter(|(index, _)| nodes.contains(index)).collect();
        let mut drawn: Vec<ValueId> = Vec::new();
        let mut open = None;
        for (index, node) in &shown {
            if node.scope != open {
                if open.is_some() {
                    text.push_str("  }\n");
                }
                open = node.scope;
                if let Some(scope) = open {
                    let label = self.scope_of(node).unwrap_or("");
                    let _ = writeln!(text, "  subgraph cluster_{scope}_{index} {{ label=\"{label}\";");
                }
            }
            let outputs: Vec<String> =
                node.outputs.iter().map(|output| self.info(*output).to_string()).collect();
            let _ = writeln!(text, "  n{index} [label=\"{}\\n{}\"];", node.op.name(), outputs.join(", "));
        }
        if open.is_some() {
            text.push_str("  }\n");
        }
        for (index, node) in &shown {
            for input in &node.inputs {
                let maker = self.maker(input.value).filter(|maker| nodes.contains(maker));
                let Some(maker) = maker else {
                    if !drawn.contains(&input.value) {
                        drawn.push(input.value);
                        let (name, info) = (self.name(input.value), self.info(*input));
                        let id = input.value.0;
                        let style = match self.origin(input.value) {
                            Some(Origin::Parameter(_)) => "\"dashed,rounded\"",
                            _ => "dashed",
                        };
                        let _ = writeln!(
                            text,
                            "  v{id} [label=\"{name}\\n{info}\", style={style}];",
                            name = name.escape_default()
                        );
                    }
                    let _ = writeln!(text, "  v{} -> n{index};", input.value.0);
                    continue;
                };
                let _ = writeln!(text, "  n{maker} -> n{index};");
            }
        }
        text.push_str("}\n");
        text
    }

    /// Returns the name of a value: `%7`, the label of a constant, or the name of an input or a parameter.
    fn name(&self, value: ValueId) -> String {
        match self.origin(self.root(value)) {
            Some(Origin::Constant(buffer)) => buffer.label().unwrap_or("constant").to_owned(),
            Some(Origin::Input(input)) => {
                self.inputs.get(*input).map_or_else(String::new, |input| input.name.clone())
            }
            Some(Origin::Parameter(number)) => {
                self.parameters.get(*number).map_or_else(String::new, |slot| format!("${}", slot.name))
            }
            _ => format!("%{}", value.0),
        }
    }

    /// Some of the nodes as text, one line each, under the names of their scopes.
    pub fn text(&self, nodes: Range<usize>) -> String {
        let mut text = String::new();
        let mut scope = None;
        let list = |operands: &[Operand]| -> String {
            operands.iter().map(|operand| self.operand_text(operand)).collect::<Vec<_>>().join(", ")
        };
        for node in self.nodes.get(nodes).unwrap_or(&[]) {
            if Some(node.scope) != scope {
                scope = Some(node.scope);
                let _ = writeln!(text, "{}:", self.scope_of(node).unwrap_or("outside"));
            }
            let (outputs, inputs) = (list(&node.outputs), list(&node.inputs));
            let _ = writeln!(text, "  {outputs} = {} {:?} ({inputs})", node.op.name(), node.op);
        }
        text
    }

    /// The parameters, on one line; nothing where there are none.
    pub fn parameter_text(&self) -> String {
        let all: Vec<String> = self.parameters().map(|(_, name, info)| format!("${name} {info}")).collect();
        if all.is_empty() { String::new() } else { format!("parameters: {}\n", all.join(", ")) }
    }

    fn operand_text(&self, operand: &Operand) -> String {
        format!("{} {}", self.name(operand.value), self.info(*operand))
    }
}

impl fmt::Display for ComputeGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outputs: Vec<String> = self.outputs.iter().map(|output| self.operand_text(output)).collect();
        writeln!(f, "{} nodes, {} inputs", self.nodes.len(), self.inputs.len())?;
        f.write_str(&self.parameter_text())?;
        write!(f, "{}gives {}", self.text(0..self.nodes.len()), outputs.join(", "))
    }
}
