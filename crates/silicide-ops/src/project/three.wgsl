// Workgroups of one product, then those of the next, then those of the last.
fn multiply(group: u32, lane: u32) {
    if group < p.first_two {
        project_one(group, lane);
    } else if group < p.first_three {
        project_two(group - p.first_two, lane);
    } else {
        project_three(group - p.first_three, lane);
    }
}
