for i in range(1, 6):
    if i % 15 == 0:
        word = "FizzBuzz"
    elif i % 3 == 0:
        word = "Fizz"
    elif i % 5 == 0:
        word = "Buzz"
    else:
        word = str(i)
    print(word)
