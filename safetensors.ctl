60
0
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/seven_bytes
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/length_and_nothing
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/only_a_brace
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/a_list
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/no_arrays
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/left_over_without_arrays
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/nul_behind_the_end
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/behind_the_end
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/array_null
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/members_missing
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/metadata_list
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/control_in_a_name
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/backslash_at_the_end
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/utf_8_cut_by_the_end
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/metadata_open
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/escape_cut_by_the_end
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/no_utf_8
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/utf_8_overlong
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/utf_8_surrogate
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/escape_cut
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/escape_unknown
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/surrogate_and_the_end
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/surrogate_low
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/text_twice
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/metadata_twice
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/member_missing
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/surrogate_and_letter
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/pickle
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/seal_and_the_end
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/hugging_face_index
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/dtype_number
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/dtype_empty
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/offsets_0
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/offsets_1
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/shape_no_list
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/data_cut_short
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/no_colon
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/offsets_too_few_bytes
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/no_comma
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/length_too_small
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/offsets_turned
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/shape_comma
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/number_with_a_0_before
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/offsets_3
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/offsets_too_many_bytes
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/member_twice
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/offsets_2_53
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/shape_overflow_by_size
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/nine_dimensions
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/metadata_empty
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/blanks
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/metadata_behind
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/unsealed_by_a_bit
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/offsets_end_before_begin
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/name_twice
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/other_order
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/sealed
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/escapes
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/zero_sized
/work/tmp/tests-run/tests/fuzz/regressions/safetensors/every_type
STARTED 0 7
FT 0 0 3 4 5 8 49 50 52 53 54 57 61 62 66 74 75 80 84 92 95 116 326 327 328 150581 150582 150584 150587 150588 150592 152816 152819 152966 152969 153017 153025 193969
COV 0 0 3 4 5 8 49 50 52 53 54 57 61 62 66 74 75 80 84 92 95 116 326 327 328 20213 20214 20216 20219 20220 20224 22448 22451 22598 22601 22649 22657
STARTED 1 8
FT 1 152829
COV 1 22461
STARTED 2 9
FT 2 58 77 79 150606 150608 150610 150612 150972 150973 150983 150986 150993 150997 150998 150999 151005 151015 151016 152834
COV 2 58 77 79 20238 20240 20242 20244 20604 20605 20615 20618 20625 20629 20630 20631 20637 20647 20648 22466
STARTED 3 10
FT 3 152846
COV 3 22478
STARTED 4 10
FT 4 15 17 86 117 120 148 150607 150979 151004 152848 152897 152905 152956 152979 152980 152987 152988 153026 153029 153035
COV 4 15 17 86 117 120 148 20239 20611 20636 22480 22529 22537 22588 22611 22612 22619 22620 22658 22661 22667
STARTED 5 11
FT 5 152952
COV 5 22584
STARTED 6 12
FT 6 150978 152894
COV 6 20610 22526
STARTED 7 13
FT 7 150982
COV 7 20614
STARTED 8 18
FT 8 150929 150937 150954 150957 150959 150990 150992 151003 151022 151023 151047 151050 151054
COV 8 20561 20569 20586 20589 20591 20622 20624 20635 20654 20655 20679 20682 20686
STARTED 9 20
FT 9 152850 152997 153000
COV 9 22482 22629 22632
STARTED 10 27
FT 10
COV 10
STARTED 11 28
FT 11 150593 151030 151032 151043 151055 151067 151068
COV 11 20225 20662 20664 20675 20687 20699 20700
STARTED 12 31
FT 12 151024 151049 151051
COV 12 20656 20681 20683
STARTED 13 32
FT 13 150933 150936 151045
COV 13 20565 20568 20677
STARTED 14 32
FT 14 150613 150615 150617 150620 151006 152887
COV 14 20245 20247 20249 20252 20638 22519
STARTED 15 34
FT 15 151044 151056
COV 15 20676 20688
STARTED 16 34
FT 16 150934
COV 16 20566
STARTED 17 35
FT 17 150932 150942 150952
COV 17 20564 20574 20584
STARTED 18 36
FT 18 150946 150956
COV 18 20578 20588
STARTED 19 37
FT 19 151064
COV 19 20696
STARTED 20 37
FT 20 151031
COV 20 20663
STARTED 21 38
FT 21 151035
COV 21 20667
STARTED 22 39
FT 22 151034
COV 22 20666
STARTED 23 42
FT 23 151011 152888 152890 152891 152892 152984 152985 152996 153001 153008
COV 23 20643 22520 22522 22523 22524 22616 22617 22628 22633 22640
STARTED 24 45
FT 24 152882 152883 152893
COV 24 22514 22515 22525
STARTED 25 45
FT 25 151069 151078 151081 151084 152853 152863 152871 152873 152874
COV 25 20701 20710 20713 20716 22485 22495 22503 22505 22506
STARTED 26 45
FT 26 151039
COV 26 20671
STARTED 27 47
FT 27 152828
COV 27 22460
STARTED 28 50
FT 28 150511 150513 150514 150515 150516 150517 150518 150519 150520 150521 150522 150523 150524 150525 150526 150527 150528 150529 150531 150536 150537 150538 150539 150574 150575 150579 150580 152841
COV 28 20143 20145 20146 20147 20148 20149 20150 20151 20152 20153 20154 20155 20156 20157 20158 20159 20160 20161 20163 20168 20169 20170 20171 20206 20207 20211 20212 22473
STARTED 29 60
FT 29 152836 152855
COV 29 22468 22487
STARTED 30 63
FT 30
COV 30
STARTED 31 63
FT 31 152861 152862
COV 31 22493 22494
STARTED 32 63
FT 32 151082 152856
COV 32 20714 22488
STARTED 33 64
FT 33 152865
COV 33 22497
STARTED 34 64
FT 34
COV 34
STARTED 35 65
FT 35 151085 152866 152878 152881 152900 152907 152920 152953
COV 35 20717 22498 22510 22513 22532 22539 22552 22585
STARTED 36 66
FT 36
COV 36
STARTED 37 66
FT 37 152951
COV 37 22583
STARTED 38 66
FT 38 151010
COV 38 20642
STARTED 39 66
FT 39
COV 39
STARTED 40 66
FT 40 152911
COV 40 22543
STARTED 41 67
FT 41 152872
COV 41 22504
STARTED 42 67
FT 42 151086
COV 42 20718
STARTED 43 68
FT 43
COV 43
STARTED 44 69
FT 44 152864 152915
COV 44 22496 22547
STARTED 45 78
FT 45 152857
COV 45 22489
STARTED 46 81
FT 46 151079
COV 46 20711
STARTED 47 82
FT 47 152923
COV 47 22555
STARTED 48 82
FT 48 152867
COV 48 22499
STARTED 49 84
FT 49 142 143 277 286 306 307 152730 152736 152758 152761 153036 153046 153047 153051 153052 153064 153067 153076 181760 181766 181769 181771
COV 49 142 143 277 286 306 307 22362 22368 22390 22393 22668 22678 22679 22683 22684 22696 22699 22708 22720 22726 22729 22731
STARTED 50 90
FT 50 150981 152739 152924
COV 50 20613 22371 22556
STARTED 51 91
FT 51 118 153009 153016
COV 51 118 22641 22648
STARTED 52 116
FT 52 308
COV 52 308
STARTED 53 119
FT 53 152879 152906 152950 152970 152975 152990
COV 53 22511 22538 22582 22602 22607 22622
STARTED 54 119
FT 54 152978
COV 54 22610
STARTED 55 121
FT 55 139 144 153040 153043
COV 55 139 144 22672 22675
STARTED 56 124
FT 56 119 152843 152957 153013 153042
COV 56 119 22475 22589 22645 22674
STARTED 57 146
FT 57 281 282 284 291 295 299 303 150960 150961 150965 150968 150971 151042
COV 57 281 282 284 291 295 299 303 20592 20593 20597 20600 20603 20674
STARTED 58 174
FT 58 152989 153041 153060
COV 58 22621 22673 22692
STARTED 59 406
FT 59 152731 152877 153074 153075 153077 153079 153080 153081 153082 153084 153086 181770
COV 59 22363 22509 22706 22707 22709 22711 22712 22713 22714 22716 22718 22730
