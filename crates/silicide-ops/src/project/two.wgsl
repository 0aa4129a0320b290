// Workgroups of one product, then those of the other.
fn multiply(group: u32, lane: u32) {
    if group < p.first_two {
        project_one(group, lane);
    } else {
        project_two(group - p.first_two, lane);
    }
}
