use super::*;

const BLOCK: u32 = 64 * 1024;

fn buddy(pages: u32) -> Buddy {
    Buddy::new(Span::new(8 * PAGE, pages * PAGE), BLOCK)
}

#[test]
fn buffers_start_on_pages_and_do_not_overlap() {
    let mut pool = buddy(64);
    let mut got: Vec<Span> = Vec::new();
    for len in [1, 4096, 4097, 12288, 512, 65536, 8192] {
        got.push(pool.allocate(len).unwrap());
        assert_eq!(got.last().unwrap().len(), len);
    }
    for (i, a) in got.iter().enumerate() {
        assert_eq!(a.offset() % PAGE, 0);
        assert!(a.offset() >= 8 * PAGE && a.end() <= u64::from(72 * PAGE));
        for b in &got[i + 1..] {
            assert!(a.end() <= u64::from(b.offset()) || b.end() <= u64::from(a.offset()));
        }
    }
}

#[test]
fn freed_neighbours_become_one_block_again() {
    let mut pool = buddy(16);
    let pages: Vec<Span> = (0..16).map(|_| pool.allocate(PAGE).unwrap()).collect();
    assert!(pool.allocate(1).is_none());
    for page in pages.iter().rev() {
        pool.free(*page);
    }
    assert_eq!(pool.used(), (0, 0));
    assert!(pool.allocate(BLOCK).is_some());
}

#[test]
fn a_part_that_is_no_power_of_two_is_used_to_the_last_page() {
    let mut pool = buddy(23);
    for _ in 0..23 {
        assert!(pool.allocate(PAGE).is_some());
    }
    assert!(pool.allocate(PAGE).is_none());
}

#[test]
#[should_panic(expected = "is not in use")]
fn a_buffer_freed_twice_is_caught() {
    let mut pool = buddy(16);
    let buffer = pool.allocate(PAGE).unwrap();
    pool.free(buffer);
    pool.free(buffer);
}

#[test]
fn a_long_random_life_leaves_the_pool_whole() {
    let mut pool = buddy(16 * 7);
    let mut held: Vec<Span> = Vec::new();
    let mut random = 88172645463325252u64;
    for _ in 0..20_000 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if random.is_multiple_of(2) || held.is_empty() {
            if let Some(buffer) = pool.allocate((random >> 8) as u32 % BLOCK + 1) {
                held.push(buffer);
            }
        } else {
            let at = (random >> 8) as usize % held.len();
            pool.free(held.swap_remove(at));
        }
        assert_eq!(pool.used().0 as usize, held.len());
        let bytes: u64 = held.iter().map(|buffer| pool.block_len(*buffer).unwrap()).sum();
        assert_eq!(pool.used().1, bytes);
    }
    held.drain(..).for_each(|buffer| pool.free(buffer));
    for _ in 0..7 {
        assert!(pool.allocate(BLOCK).is_some());
    }
}

#[test]
fn standing_memory_is_reused_and_joins_up() {
    let mut standing = Standing::new(Span::new(PAGE, 10 * PAGE));
    let a = standing.allocate(u64::from(3 * PAGE)).unwrap();
    let b = standing.allocate(100).unwrap();
    let c = standing.allocate(u64::from(6 * PAGE)).unwrap();
    assert_eq!(standing.allocate(1), None);
    standing.free(a);
    standing.free(c);
    assert_eq!(standing.allocate(u64::from(7 * PAGE)), None);
    standing.free(b);
    assert_eq!(standing.used(), 0);
    let all = standing.allocate(u64::from(10 * PAGE)).unwrap();
    assert_eq!((all.offset(), all.len()), (PAGE, 10 * PAGE));
    assert_eq!(standing.allocate(0), Some(Span::default()));
}
