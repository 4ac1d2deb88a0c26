"""`python -m benchmarks retention`: which planted facts a window still holds after many compactions, judged without a reader."""
