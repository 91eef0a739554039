use super::*;

#[test]
fn rounds_the_length_up_to_pages_and_starts_zeroed() {
    let region = Region::map(5000, Pages::Normal).unwrap();
    assert_eq!(region.len(), 8192);
    assert_eq!(region.base().as_ptr() as usize % PAGE_SIZE, 0);
    let mut out = [1u8; 16];
    region.read(Span::new(8176, 16), &mut out);
    assert_eq!(out, [0; 16]);
}

#[test]
fn refuses_impossible_lengths() {
    for len in [0, MAX_REGION_LEN + 1] {
        assert!(matches!(Region::map(len, Pages::Normal), Err(MapError::Length { .. })));
    }
}

#[test]
fn falls_back_to_ordinary_pages() {
    let region = Region::map(4096, Pages::PreferHuge).unwrap();
    assert!(region.is_huge() || region.len() == 4096);
}

#[test]
fn huge_pages_or_none_are_told_how_many_are_missing() {
    // More than any machine that runs this has reserved.
    match Region::map(1 << 32, Pages::Huge) {
        Ok(region) => assert!(region.is_huge()),
        Err(error) => {
            assert!(error.to_string().contains("need 2048 huge pages of 2 MiB"), "{error}");
        }
    }
}

#[test]
fn what_is_written_is_read_back() {
    let region = Region::map(4096, Pages::Normal).unwrap();
    region.write(Span::new(100, 50), b"capsule");
    let mut out = [0u8; 9];
    region.read(Span::new(99, 9), &mut out);
    assert_eq!(&out, b"\0capsule\0");
    region.fill(Span::new(100, 3), b'x');
    region.read(Span::new(99, 9), &mut out);
    assert_eq!(&out, b"\0xxxsule\0");
}

#[test]
fn compare_names_the_first_differing_byte() {
    let region = Region::map(4096, Pages::Normal).unwrap();
    let (a, b) = (Span::new(0, 700), Span::new(1000, 700));
    assert_eq!(region.first_difference(a, b), None);
    region.write(Span::new(1000 + 513, 1), &[9]);
    assert_eq!(region.first_difference(a, b), Some(513));
}

#[test]
fn copies_between_regions_and_within_one() {
    let (one, two) =
        (Region::map(4096, Pages::Normal).unwrap(), Region::map(4096, Pages::Normal).unwrap());
    one.write(Span::new(0, 4), b"abcd");
    one.copy_to(Span::new(0, 4), &two, Span::new(8, 4));
    one.copy_to(Span::new(0, 4), &one, Span::new(2, 4));
    let mut out = [0u8; 6];
    one.read(Span::new(0, 6), &mut out);
    assert_eq!(&out, b"ababcd");
    let mut out = [0u8; 4];
    two.read(Span::new(8, 4), &mut out);
    assert_eq!(&out, b"abcd");
}

#[test]
#[should_panic(expected = "outside a region")]
fn a_span_past_the_end_is_our_bug() {
    Region::map(4096, Pages::Normal).unwrap().addr(Span::new(4090, 7));
}

#[test]
#[should_panic(expected = "slice")]
fn a_slice_past_its_span_is_our_bug() {
    let _ = Span::new(0, 8).slice(4, 5);
}
