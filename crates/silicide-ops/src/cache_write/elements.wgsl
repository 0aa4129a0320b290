// Elements of a plain cache.
const ITEM: u32 = 1u;

fn put_item(to: u32, source: u32) {
    store_cache(to, load_rows(source));
}
